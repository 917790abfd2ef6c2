//! Batches as other clients wrote them, kept as hexadecimal digits: the same six records by each.
//!
//! `java` is kafka-clients 4.0.0 with its lz4-java, snappy-java and zstd-jni; `librdkafka` is 2.16.0
//! over a socket to its mock broker; `kafka-python` is 3.0.12 with lz4 4.4.5 and cramjam 2.14.0.

use super::batches::{assert_same, built};
use super::*;
use crate::protocol::records::BatchView;

const CAPTURED: &[(&str, Compression, &str)] = &[
    (
        "java, gzip",
        Compression::Gzip,
        "00000000000000000000009dffffffff02211e1ece0001000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff000000061f8b08000000000000ffcb62606060ca8ec9cec9cf2f50\
         284a4d4c295628cf482c51c82fc9482d5248cec94ccd2b010a156596a4ea281818401043165013f1ba0c\
         2108a48b85785d461004d2c546bc2e630802e9e2205e97090481747111afcb14821800a8b4964f440100\
         00",
    ),
    (
        "java, snappy",
        Compression::Snappy,
        "0000000000000000000000bfffffffff02892ea6670002000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff0000000682534e415050590000000001000000010000007ac402e8\
         6a000000026b5c6b6c6f6f702072656164732077686174206f7468657220636c69656e74732077726974\
         652c203030203030203030006a00000202a23600043120050301360004a66c00043220050301360006a6\
         3600043320050301360008a6360004342005030136000aa636001c3520303520303500",
    ),
    (
        "java, lz4",
        Compression::Lz4,
        "0000000000000000000000b5ffffffff028b9471eb0003000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff0000000604224d1860408275000000f2206a000000026b5c6b6c6f\
         6f702072656164732077686174206f7468657220636c69656e74732077726974652c20303003005f006a\
         000002360017123103000036001f04360017123203000036001f06360017123303000036001f08360017\
         123403000036001f0a36001780352030352030350000000000",
    ),
    (
        "java, zstd",
        Compression::Zstd,
        "0000000000000000000000a2ffffffff0208a217a40004000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff0000000628b52ffd00582c030044046a000000026b5c6b6c6f6f70\
         2072656164732077686174206f7468657220636c69656e74732077726974652c203030006a0000023104\
         32063308340a35203035203035000e000108b0a01b2e0006d674030b408005dd700130b0a61bd8ace0bb\
         83d303010000",
    ),
    (
        "librdkafka, gzip",
        Compression::Gzip,
        "00000000000000000000009d00000000028f8aaa9b0001000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff000000061f8b0800000000000003cb62606060ca8ec9cec9cf2f50\
         284a4d4c295628cf482c51c82fc9482d5248cec94ccd2b010a156596a4ea281818401043165013f1ba0c\
         2108a48b85785d461004d2c546bc2e630802e9e2205e97090481747111afcb14821800a8b4964f440100\
         00",
    ),
    (
        "librdkafka, snappy",
        Compression::Snappy,
        "0000000000000000000000ab00000000028afcd42b0002000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff00000006c402e86a000000026b5c6b6c6f6f702072656164732077\
         686174206f7468657220636c69656e74732077726974652c203030203030203030006a00000202a23600\
         043120050301360004a66c00043220050301360006a63600043320050301360008a63600043420050301\
         36000aa636001c3520303520303500",
    ),
    (
        "librdkafka, zstd",
        Compression::Zstd,
        "00000000000000000000009f0000000002e9e30ed70004000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff0000000628b52ffd00582d030044046a000000026b5c6b6c6f6f70\
         2072656164732077686174206f7468657220636c69656e74732077726974652c203030006a0000023104\
         32063308340a35203035203035000e000108b0a01b2e0006d674030b408005dd700130b0a61bd8ace0bb\
         83d303",
    ),
    (
        "kafka-python, lz4",
        Compression::Lz4,
        "0000000000000000000000bd0000000002e74f86100003000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff0000000604224d1868404401000000000000eb75000000f2206a00\
         0000026b5c6b6c6f6f702072656164732077686174206f7468657220636c69656e74732077726974652c\
         20303003005f006a000002360017123103000036001f04360017123203000036001f0636001712330300\
         0036001f08360017123403000036001f0a36001780352030352030350000000000",
    ),
    (
        "kafka-python, zstd",
        Compression::Zstd,
        "0000000000000000000000a00000000002921969c60004000000050000018bcfe568000000018bcfe568\
         00ffffffffffffffffffffffffffff0000000628b52ffd6044002d030044046a000000026b5c6b6c6f6f\
         702072656164732077686174206f7468657220636c69656e74732077726974652c203030006a00000231\
         0432063308340a35203035203035000e000108b0a01b2e0006d674030b408005dd700130b0a61bd8ace0\
         bb83d303",
    ),
];

fn unhexed(digits: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(digit).collect()
}

#[test]
fn batches_of_other_clients_are_inflated() {
    let values: Vec<String> = (0..6)
        .map(|i| format!("kloop reads what other clients write, {i:02} {i:02} {i:02}"))
        .collect();
    let (_, plain) = built(values.iter().map(|value| (1_700_000_000_000, value.as_bytes())));
    for (name, codec, digits) in CAPTURED {
        if !packers().iter().any(|packer| packer.codec == *codec) {
            continue;
        }
        println!("{name}");
        let bytes = unhexed(digits);
        let batch = BatchView::parse(&bytes).unwrap();
        assert!(batch.verify_crc() && batch.attributes().compression() == Some(*codec));
        let mut to = vec![0; plain.len()];
        let total = Inflater::new().unwrap().inflate_batch(&batch, &mut to).unwrap();
        assert_eq!(total, plain.len());
        let inflated = BatchView::parse(&to).unwrap();
        assert_same(&batch, &inflated);
        // kloop would have written the same records.
        assert_eq!(inflated.records_bytes(), BatchView::parse(&plain).unwrap().records_bytes());
    }
}
