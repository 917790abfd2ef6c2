// franz-go as a peer: one command of the matrix per run (see interop/README.md).
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const fetchKey = 1

// die ends with `refused CODE` and status 3 if a broker said so, else with status 1.
func die(err error) {
	var refused *kerr.Error
	if errors.As(err, &refused) {
		fmt.Fprintln(os.Stderr, "refused", refused.Code)
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		die(err)
	}
	return value
}

func client(brokers string, opts ...kgo.Opt) *kgo.Client {
	// By default a topic that is just being created is asked about again only after 5 s.
	opts = append(opts, kgo.SeedBrokers(brokers), kgo.MetadataMinAge(100*time.Millisecond))
	return must(kgo.NewClient(opts...))
}

func field(data []byte) string {
	switch {
	case data == nil:
		return "-"
	case len(data) == 0:
		return "."
	}
	return hex.EncodeToString(data)
}

func parseField(text string) []byte {
	switch text {
	case "-":
		return nil
	case ".":
		return []byte{}
	}
	return must(hex.DecodeString(text))
}

func parse(line string) *kgo.Record {
	part := strings.Fields(line)
	record := &kgo.Record{Key: parseField(part[0]), Value: parseField(part[1])}
	if part[2] != "." {
		for _, pair := range strings.Split(part[2], ";") {
			at := strings.LastIndexByte(pair, '=')
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: pair[:at], Value: parseField(pair[at+1:])})
		}
	}
	if len(part) > 3 {
		record.Timestamp = time.UnixMilli(must(strconv.ParseInt(part[3][1:], 10, 64)))
	}
	return record
}

func print(out *bufio.Writer, record *kgo.Record) {
	headers := "."
	if len(record.Headers) > 0 {
		pairs := make([]string, len(record.Headers))
		for i, header := range record.Headers {
			pairs[i] = header.Key + "=" + field(header.Value)
		}
		headers = strings.Join(pairs, ";")
	}
	fmt.Fprintln(out, field(record.Key), field(record.Value), headers)
}

func metadata(brokers string) {
	seen := must(kadm.NewClient(client(brokers)).Metadata(context.Background()))
	for _, broker := range seen.Brokers {
		fmt.Printf("broker %d %s:%d\n", broker.NodeID, broker.Host, broker.Port)
	}
	for name, topic := range seen.Topics {
		fmt.Println("topic", name, len(topic.Partitions))
	}
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func produce(brokers, topic, path, acks, idempotent, partition, codec string) {
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation()}
	opts = append(opts, kgo.ProducerBatchCompression(codecs[codec])) // snappy is its default
	opts = append(opts, kgo.ProducerLinger(5*time.Millisecond))
	switch acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	default:
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	if idempotent != "1" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	number := int32(0)
	if partition != "-" {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		number = int32(must(strconv.Atoi(partition)))
	}
	producer, ctx := client(brokers, opts...), context.Background()
	file := must(os.Open(path))
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 8<<20)
	var lock sync.Mutex
	var failed error
	for lines.Scan() {
		record := parse(lines.Text())
		record.Partition = number
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
			lock.Lock()
			defer lock.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	must(0, lines.Err())
	must(0, producer.Flush(ctx))
	producer.Close()
	must(0, failed)
}

// spread sends records of so many bytes round all partitions of a topic at once, as large a request
// as they make together, and reads them back.
func spread(brokers, topic string, partitions, count, size int) {
	producer := client(brokers, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(200*time.Millisecond),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProduceRequestTimeout(20*time.Second))
	ctx := context.Background()
	must(kadm.NewClient(producer).CreateTopic(ctx, int32(partitions), 1, nil, topic))
	value := make([]byte, size)
	for number := range count {
		copy(value, fmt.Sprintf("%08d", number))
		record := &kgo.Record{Topic: topic, Value: append([]byte(nil), value...)}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { must(0, err) })
	}
	must(0, producer.Flush(ctx))
	producer.Close()
	consumer := client(brokers, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := make(map[string]bool)
	for len(seen) < count {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { die(err) })
		fetches.EachRecord(func(record *kgo.Record) {
			if len(record.Value) != size {
				die(fmt.Errorf("a record of %d bytes", len(record.Value)))
			}
			seen[string(record.Value[:8])] = true
		})
	}
	consumer.Close()
}

// positioned says `ready` when the first Fetch is on its way: the start has been looked up.
type positioned struct{ once sync.Once }

func (p *positioned) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == fetchKey && err == nil {
		p.once.Do(func() { fmt.Fprintln(os.Stderr, "ready") })
	}
}

func consume(brokers, topic, partition, start, count string) {
	offset := kgo.NewOffset()
	switch {
	case start == "earliest":
		offset = offset.AtStart()
	case start == "latest":
		offset = offset.AtEnd()
	case start[0] == '@':
		offset = offset.AfterMilli(must(strconv.ParseInt(start[1:], 10, 64)))
	default:
		offset = offset.At(must(strconv.ParseInt(start, 10, 64)))
	}
	number := int32(must(strconv.Atoi(partition)))
	consumer := client(brokers, kgo.WithHooks(&positioned{}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {number: offset}}))
	out := bufio.NewWriter(os.Stdout)
	for left := must(strconv.Atoi(count)); left > 0; {
		fetches := consumer.PollRecords(context.Background(), left)
		fetches.EachError(func(_ string, _ int32, err error) { die(err) })
		fetches.EachRecord(func(record *kgo.Record) {
			print(out, record)
			left--
		})
	}
	must(0, out.Flush())
	consumer.Close()
}

func main() {
	args, ctx := os.Args[1:], context.Background()
	switch args[0] {
	case "metadata":
		metadata(args[1])
	case "create":
		partitions := int32(must(strconv.Atoi(args[3])))
		settings := make(map[string]*string)
		for _, setting := range args[4:] {
			key, value, _ := strings.Cut(setting, "=")
			settings[key] = &value
		}
		must(kadm.NewClient(client(args[1])).CreateTopic(ctx, partitions, 1, settings, args[2]))
	case "delete":
		must(kadm.NewClient(client(args[1])).DeleteTopic(ctx, args[2]))
	case "produce":
		produce(args[1], args[2], args[3], args[4], args[5], args[6], args[7])
	case "spread":
		number := func(at int) int { return must(strconv.Atoi(args[at])) }
		spread(args[1], args[2], number(3), number(4), number(5))
	case "consume":
		consume(args[1], args[2], args[3], args[4], args[5])
	default:
		die(fmt.Errorf("no command %s", args[0]))
	}
}
