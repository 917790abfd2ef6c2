//! Header: what stands before each request and answer. Hot: read once per frame.
//!
//! Which of the two forms it has follows from the API's key and version; see [`ApiKey`].

use super::api_key::ApiKey;
use super::reader::{Malformed, Reader, Result};
use super::writer::Writer;

/// What stands before a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API.
    pub api_key: ApiKey,
    /// The API's version.
    pub api_version: i16,
    /// Chosen by the client; the answer repeats it.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<&'a str>,
}

impl<'a> RequestHeader<'a> {
    /// Reads a header of the form that its own key and version ask for. Tagged fields are checked
    /// and passed over: Kafka has given out none.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a header, or the key is unknown: where its body begins
    /// cannot be told then.
    #[inline]
    pub fn read(r: &mut Reader<'a>) -> Result<Self> {
        let api_key = ApiKey(r.i16()?);
        let api_version = r.i16()?;
        let correlation_id = r.i32()?;
        let form = api_key.request_header_version(api_version);
        let form = form.ok_or(Malformed("the API key is not known"))?;
        // Two bytes of length in both forms, so that a broker can read it before it knows the form.
        let client_id = match r.length(false, false)? {
            Some(n) => match core::str::from_utf8(r.take(n)?) {
                Ok(text) => Some(text),
                Err(_) => return Err(Malformed("the client id is not UTF-8")),
            },
            None => None,
        };
        if form >= 2 {
            r.tagged_fields(|_, _| Ok(()))?;
        }
        Ok(RequestHeader { api_key, api_version, correlation_id, client_id })
    }

    /// Writes the header; a key that is not known makes the message unwritable.
    #[inline]
    pub fn write(&self, w: &mut Writer<'_>) {
        let Some(form) = self.api_key.request_header_version(self.api_version) else {
            w.refuse("the API key is not known");
            return;
        };
        w.i16(self.api_key.0);
        w.i16(self.api_version);
        w.i32(self.correlation_id);
        w.length(self.client_id.map(str::len), false, false);
        w.bytes(self.client_id.map_or(&[], str::as_bytes));
        if form >= 2 {
            w.uvarint(0);
        }
    }
}

/// What stands before an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The request's.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of an answer to `key` in `version`, which the caller remembers from its
    /// request. To look at the correlation id first, take it with [`Reader::i32`] from a copy.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a header, or the key is unknown.
    #[inline]
    pub fn read(r: &mut Reader<'_>, key: ApiKey, version: i16) -> Result<Self> {
        let form = key.response_header_version(version);
        let form = form.ok_or(Malformed("the API key is not known"))?;
        let correlation_id = r.i32()?;
        if form >= 1 {
            r.tagged_fields(|_, _| Ok(()))?;
        }
        Ok(ResponseHeader { correlation_id })
    }

    /// Writes the header; a key that is not known makes the message unwritable.
    #[inline]
    pub fn write(&self, w: &mut Writer<'_>, key: ApiKey, version: i16) {
        let Some(form) = key.response_header_version(version) else {
            w.refuse("the API key is not known");
            return;
        };
        w.i32(self.correlation_id);
        if form >= 1 {
            w.uvarint(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(api_key: ApiKey, api_version: i16) -> RequestHeader<'static> {
        RequestHeader { api_key, api_version, correlation_id: 7, client_id: Some("me") }
    }

    #[test]
    fn a_request_header_has_two_forms() {
        for (version, bytes) in [
            (8, &[0, 0, 0, 8, 0, 0, 0, 7, 0, 2, b'm', b'e'][..]),
            (9, &[0, 0, 0, 9, 0, 0, 0, 7, 0, 2, b'm', b'e', 0][..]),
        ] {
            let mut buf = [0; 32];
            let mut w = Writer::new(&mut buf);
            header(ApiKey::PRODUCE, version).write(&mut w);
            let n = w.finish().unwrap();
            assert_eq!(&buf[..n], bytes);
            let mut r = Reader::new(bytes);
            assert_eq!(RequestHeader::read(&mut r), Ok(header(ApiKey::PRODUCE, version)));
            assert_eq!(r.left(), 0);
            for cut in 0..bytes.len() {
                assert!(RequestHeader::read(&mut Reader::new(&bytes[..cut])).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn a_null_client_id_and_unknown_tags_are_read() {
        let bytes = [0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 1, 5, 2, 0xaa, 0xbb, 0x77];
        let mut r = Reader::new(&bytes);
        let header = RequestHeader::read(&mut r).unwrap();
        assert_eq!(header.client_id, None);
        assert_eq!(r.rest(), [0x77]);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let bytes = [3, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
        assert!(RequestHeader::read(&mut Reader::new(&bytes)).is_err());
        let mut w = Writer::measuring();
        header(ApiKey(-5), 0).write(&mut w);
        assert!(w.finish().is_err());
    }

    #[test]
    fn the_answer_to_api_versions_never_has_tags() {
        for (key, version, len) in
            [(ApiKey::API_VERSIONS, 4, 4), (ApiKey::FETCH, 11, 4), (ApiKey::FETCH, 12, 5)]
        {
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            ResponseHeader { correlation_id: 9 }.write(&mut w, key, version);
            assert_eq!(w.finish(), Ok(len));
            let mut r = Reader::new(&buf[..len]);
            let read = ResponseHeader::read(&mut r, key, version).unwrap();
            assert_eq!((read.correlation_id, r.left()), (9, 0));
            assert!(ResponseHeader::read(&mut Reader::new(&buf[..len - 1]), key, version).is_err());
        }
    }
}
