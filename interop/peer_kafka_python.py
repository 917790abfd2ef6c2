"""kafka-python as a peer: one command of the matrix per run (see interop/README.md)."""

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import BrokerResponseError, KafkaError

from records import read_records, write_records


def metadata(brokers):
    """Prints `broker ID HOST:PORT` and `topic NAME PARTITIONS` lines."""
    admin = KafkaAdminClient(bootstrap_servers=brokers)
    for broker in admin.describe_cluster()["brokers"]:
        number = broker.get("broker_id", broker.get("node_id"))
        print("broker", number, f"{broker['host']}:{broker['port']}")
    for topic in admin.describe_topics():
        print("topic", topic.get("name", topic.get("topic")), len(topic["partitions"]))
    admin.close()


def administer(brokers, call):
    """Runs an admin call to its end; a refusal is exit status 3."""
    admin = KafkaAdminClient(bootstrap_servers=brokers)
    try:
        call(admin)
    except BrokerResponseError as error:
        print("refused", error.errno, file=sys.stderr)
        sys.exit(3)
    admin.close()


def produce(brokers, topic, path, acks, idempotent, partition="-", codec="none"):
    """Sends the records of a file, in order."""
    acks = acks if acks == "all" else int(acks)
    producer = KafkaProducer(
        bootstrap_servers=brokers,
        acks=acks,
        enable_idempotence=idempotent == "1",
        linger_ms=5,
        compression_type=None if codec == "none" else codec,
    )
    futures = []
    partition = None if partition == "-" else int(partition)
    for key, value, headers, timestamp in read_records(path):
        futures.append(producer.send(topic, value, key, headers, partition, timestamp))
    producer.flush(100)
    producer.close()
    errors = [future.exception for future in futures if not future.is_done or future.failed()]
    # Only the record that is to blame has the broker's code, not the others of its batch.
    codes = [error.errno for error in errors if isinstance(error, BrokerResponseError)]
    if codes:
        print("refused", codes[0], file=sys.stderr)
        sys.exit(3)
    if errors:
        sys.exit(f"{len(errors)} records failed or have no outcome: {errors[0]!r}")


def consume(brokers, topic, partition, start, count):
    """Prints COUNT records of a partition."""
    count, where = int(count), TopicPartition(topic, int(partition))
    consumer = KafkaConsumer(
        bootstrap_servers=brokers, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
    )
    consumer.assign([where])
    if start == "earliest":
        consumer.seek_to_beginning(where)
    elif start == "latest":
        consumer.seek_to_end(where)
        consumer.position(where)
        print("ready", file=sys.stderr, flush=True)
    elif start.startswith("@"):
        consumer.seek(where, consumer.offsets_for_times({where: int(start[1:])})[where].offset)
    else:
        consumer.seek(where, int(start))
    got = []
    while len(got) < count:
        for batch in consumer.poll(1000, max_records=min(5000, count - len(got))).values():
            got.extend((record.key, record.value, record.headers) for record in batch)
    write_records(got)
    consumer.close()


def main(command, *args):
    """Runs one command."""
    if command == "create":
        brokers, topic, partitions, *settings = args
        wanted = NewTopic(topic, int(partitions), 1, topic_configs=dict(one.split("=", 1) for one in settings))
        administer(brokers, lambda admin: admin.create_topics([wanted]))
    elif command == "delete":
        brokers, topic = args
        administer(brokers, lambda admin: admin.delete_topics([topic]))
    else:
        {"metadata": metadata, "produce": produce, "consume": consume}[command](*args)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaError as failure:
        sys.exit(repr(failure))
