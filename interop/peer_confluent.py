"""confluent-kafka as a peer: one command of the matrix per run (see interop/README.md)."""

import sys

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from records import read_records, write_records


def metadata(brokers):
    """Prints `broker ID HOST:PORT` and `topic NAME PARTITIONS` lines."""
    admin = AdminClient({"bootstrap.servers": brokers})
    seen = admin.list_topics(timeout=20)
    for broker in seen.brokers.values():
        print("broker", broker.id, f"{broker.host}:{broker.port}")
    for topic in seen.topics.values():
        print("topic", topic.topic, len(topic.partitions))


def administer(brokers, call):
    """Runs an admin call to its end; a refusal is exit status 3."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in call(admin).values():
        try:
            future.result(20)
        except KafkaException as error:
            refuse_or_raise(error)


def refuse_or_raise(error):
    """Ends with `refused CODE` if the error came from the broker."""
    if error.args[0].code() > 0:
        print("refused", error.args[0].code(), file=sys.stderr)
        sys.exit(3)
    raise error


def produce(brokers, topic, path, acks, idempotent, partition="-", codec="none"):
    """Sends the records of a file, in order."""
    failed = []
    config = {"bootstrap.servers": brokers, "acks": acks, "enable.idempotence": idempotent == "1"}
    config |= {"compression.type": codec, "linger.ms": 20}
    producer = Producer(config)

    def delivered(error, _):
        if error is not None:
            failed.append(error)

    for key, value, headers, timestamp in read_records(path):
        more = {} if partition == "-" else {"partition": int(partition)}
        if timestamp is not None:
            more["timestamp"] = timestamp
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, on_delivery=delivered, **more)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(100)
    if failed:
        refuse_or_raise(KafkaException(failed[0]))
    if left:
        sys.exit(f"{left} records have no outcome")


def consume(brokers, topic, partition, start, count):
    """Prints COUNT records of a partition."""
    count, where = int(count), TopicPartition(topic, int(partition))
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    if start.startswith("@"):
        where.offset = int(start[1:])
        where.offset = consumer.offsets_for_times([where], 20)[0].offset
    else:
        where.offset = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(start) or int(start)
    consumer.assign([where])
    got, ready = [], start != "latest"
    while len(got) < count:
        for message in consumer.consume(min(1000, count - len(got)), 1.0):
            error = message.error()
            if error is None:
                got.append((message.key(), message.value(), message.headers() or []))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif not ready:
                print("ready", file=sys.stderr, flush=True)
                ready = True
    write_records(got)
    consumer.close()


def main(command, *args):
    """Runs one command."""
    if command == "create":
        brokers, topic, partitions, *settings = args
        wanted = NewTopic(topic, int(partitions), 1, config=dict(one.split("=", 1) for one in settings))
        administer(brokers, lambda admin: admin.create_topics([wanted]))
    elif command == "delete":
        brokers, topic = args
        administer(brokers, lambda admin: admin.delete_topics([topic]))
    else:
        {"metadata": metadata, "produce": produce, "consume": consume}[command](*args)


if __name__ == "__main__":
    main(*sys.argv[1:])
