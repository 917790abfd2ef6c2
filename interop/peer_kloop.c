/* kloop's client as a peer: one command of the matrix per run (see interop/README.md). */
#include "program.h"

enum { MAX_HEADERS = 256, METADATA = 3, CREATE_TOPICS = 19, DELETE_TOPICS = 20, REFUSED = 3 };

static uint64_t with_outcome, wanted;
static int without_acks, replied;

/* A request's body that is being written, or a reply's that is being read: at most 1 MiB. */
static unsigned char body[1 << 20];
static size_t body_len, body_at;

static void put_int(int64_t value, int bytes) {
  while (bytes-- > 0) body[body_len++] = (unsigned char)((uint64_t)value >> (8 * bytes));
}

static void put_string(const char *text) {
  put_int((int64_t)strlen(text), 2);
  memcpy(body + body_len, text, strlen(text));
  body_len += strlen(text);
}

static int64_t take_int(int bytes) {
  uint64_t value = 0;
  if (body_at + (size_t)bytes > body_len) die("reply", "too short");
  int negative = body[body_at] & 0x80;
  for (int i = 0; i < bytes; i++) value = value << 8 | body[body_at++];
  return negative ? (int64_t)(value | ~(uint64_t)0 << (8 * bytes - 1)) : (int64_t)value;
}

/* A string, null as empty; good until the next but one. */
static const char *take_string(void) {
  static char texts[2][512];
  static int turn_of;
  char *text = texts[turn_of = !turn_of];
  int64_t len = take_int(2);
  if (len < 0) len = 0;
  if (body_at + (size_t)len > body_len || len >= 512) die("reply", "a bad string");
  memcpy(text, body + body_at, (size_t)len);
  text[len] = '\0';
  body_at += (size_t)len;
  return text;
}

static void skip_ints(int bytes) {
  for (int64_t left = take_int(4); left > 0; left--) take_int(bytes);
}

/* Sends `body` and waits for the reply, which then stands in `body`. */
static void ask(int16_t api_key, int16_t api_version) {
  kloop_slice slice;
  slice.data = body;
  slice.len = body_len;
  kloop_status status = kloop_client_request(client, -1, api_key, api_version, slice, 7, NULL);
  if (status != 0) die("request", kloop_status_str(status));
  while (!replied) turn(-1);
  body_at = 0;
}

static void metadata(void) {
  put_int(-1, 4); /* all topics */
  ask(METADATA, 1);
  for (int64_t left = take_int(4); left > 0; left--) {
    int64_t id = take_int(4);
    const char *host = take_string();
    printf("broker %lld %s:%lld\n", (long long)id, host, (long long)take_int(4));
    take_string(); /* rack */
  }
  take_int(4); /* controller */
  for (int64_t left = take_int(4); left > 0; left--) {
    take_int(2);
    const char *name = take_string();
    take_int(1);
    int64_t partitions = take_int(4);
    printf("topic %s %lld\n", name, (long long)partitions);
    for (; partitions > 0; partitions--) {
      take_int(2), take_int(4), take_int(4);
      skip_ints(4), skip_ints(4);
    }
  }
}

/* Reads the only topic of a reply; says whether and how it was refused. */
static int outcome_of_topic(void) {
  take_int(4); /* throttle */
  if (take_int(4) != 1) die("reply", "not one topic");
  take_string();
  int code = (int)take_int(2);
  if (code == 0) return 0;
  fprintf(stderr, "refused %d\n", code);
  return REFUSED;
}

static int create(const char *topic, int partitions) {
  put_int(1, 4);
  put_string(topic);
  put_int(partitions, 4), put_int(1, 2), put_int(0, 4), put_int(0, 4);
  put_int(20000, 4), put_int(0, 1);
  ask(CREATE_TOPICS, 2);
  return outcome_of_topic();
}

static int delete_topic(const char *topic) {
  put_int(1, 4);
  put_string(topic);
  put_int(20000, 4);
  ask(DELETE_TOPICS, 1);
  return outcome_of_topic();
}

static void parse(char *line, kloop_msg *msg, kloop_header *headers) {
  char *key = next_word(&line, " \n"), *value = next_word(&line, " \n");
  char *pairs = next_word(&line, " \n"), *stamp = next_word(&line, " \n"), *pair;
  if (pairs == NULL) die("a record line", "has less than three words");
  msg->key = parse_field(key);
  msg->value = parse_field(value);
  msg->headers = headers;
  msg->header_count = 0;
  msg->timestamp_ms = stamp ? strtoll(stamp + 1, NULL, 10) : 0;
  if (strcmp(pairs, ".") == 0) return;
  while ((pair = next_word(&pairs, ";")) != NULL) {
    char *equals = strrchr(pair, '=');
    if (equals == NULL || msg->header_count == MAX_HEADERS) die("a record line", "bad headers");
    *equals = '\0';
    headers[msg->header_count].key.data = pair;
    headers[msg->header_count].key.len = strlen(pair);
    headers[msg->header_count++].value = parse_field(equals + 1);
  }
}

static void produce(const char *topic, const char *path, const char *acks, int idempotent,
                    int32_t partition) {
  kloop_prop props[2];
  kloop_header headers[MAX_HEADERS];
  kloop_msg msg;
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) die(path, "cannot be read");
  props[0].key = "acks";
  props[0].value = acks;
  props[1].key = "enable.idempotence";
  props[1].value = idempotent ? "true" : "false";
  without_acks = strcmp(acks, "0") == 0;
  kloop_producer *producer = producer_with(props, 2);
  memset(&msg, 0, sizeof msg);
  msg.topic = topic_of(topic);
  msg.partition = partition;
  while (getline(&line, &room, file) > 0) {
    parse(line, &msg, headers);
    send_one(producer, &msg);
    if (++wanted % 256 == 0) turn(0);
  }
  if (kloop_producer_flush(producer, 0) != 0) die("flush", "refused");
  while (with_outcome < wanted) turn(-1);
  free(line);
  fclose(file);
  kloop_producer_free(producer);
}

static void print_field(const kloop_slice *field) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *at = field->data;
  if (at == NULL || field->len == 0) putchar(at ? '.' : '-');
  for (size_t i = 0; i < field->len; i++) putchar(digits[at[i] >> 4]), putchar(digits[at[i] & 15]);
}

static void print_record(const kloop_record *record) {
  kloop_header headers[MAX_HEADERS];
  int32_t n = kloop_headers_read(record, 0, headers, MAX_HEADERS);
  if (n < 0 || (uint32_t)n != record->header_count) die("headers", "cannot be read");
  print_field(&record->key);
  putchar(' ');
  print_field(&record->value);
  putchar(' ');
  if (n == 0) putchar('.');
  for (int32_t i = 0; i < n; i++) {
    if (i > 0) putchar(';');
    fwrite(headers[i].key.data, 1, headers[i].key.len, stdout);
    putchar('=');
    print_field(&headers[i].value);
  }
  putchar('\n');
}

static void print_records(const kloop_event *ev) {
  kloop_cursor cursor;
  kloop_record record;
  int32_t n = 0;
  if (kloop_records_open(engine, ev, &cursor) != 0) die("records", "cannot be opened");
  while (with_outcome < wanted && (n = kloop_records_read(&cursor, &record, 1)) > 0) {
    print_record(&record);
    with_outcome++;
  }
  if (n < 0) die("records", kloop_status_str(n));
}

static void consume(const char *topic, int32_t partition, const char *start, uint64_t count) {
  kloop_prop props[1];
  kloop_conf conf;
  kloop_error err;
  kloop_consumer *consumer;
  kloop_tp from;
  kloop_status status;
  wanted = count;
  props[0].key = "auto.offset.reset";
  props[0].value = "none";
  if (kloop_conf_init(&conf, sizeof conf, KLOOP_ABI) != 0) die("consumer", "ABI");
  conf.props = props;
  conf.prop_count = 1;
  if (kloop_consumer_new(client, &conf, &consumer, &err) != 0) die("consumer", err.msg);
  from.topic = topic_of(topic);
  from.partition = partition;
  if (start[0] == '@') {
    status = kloop_consumer_assign_at(consumer, from.topic, partition, strtoll(start + 1, NULL, 10));
  } else {
    from.offset = strcmp(start, "earliest") == 0 ? KLOOP_OFFSET_EARLIEST
                  : strcmp(start, "latest") == 0 ? KLOOP_OFFSET_LATEST
                                                 : strtoll(start, NULL, 10);
    status = kloop_consumer_assign(consumer, &from, 1);
  }
  if (status != 0) die("assign", kloop_status_str(status));
  if (strcmp(start, "latest") == 0) {
    while (kloop_consumer_position(consumer, from.topic, partition) < 0) turn(20000000);
    fputs("ready\n", stderr);
  }
  while (with_outcome < wanted) turn(-1);
  kloop_consumer_free(consumer);
}

static void on_event(const kloop_event *ev) {
  const kloop_ev_delivered *d = &ev->u.delivered;
  switch (ev->type) {
    case KLOOP_EV_DELIVERED:
      /* Without acks nobody can say more than that the records were sent. */
      if (d->outcome != KLOOP_PERSISTED && !(without_acks && ev->status == 0))
        die("not persisted", kloop_status_str(ev->status));
      with_outcome += d->count;
      break;
    case KLOOP_EV_RECORDS: print_records(ev); break;
    case KLOOP_EV_REPLY:
      if (ev->status != 0) die("request", kloop_status_str(ev->status));
      if (ev->u.request.body_len > sizeof body) die("reply", "too long");
      memcpy(body, ev->u.request.body, body_len = ev->u.request.body_len);
      replied = 1;
      break;
    case KLOOP_EV_ERROR: die("error event", kloop_status_str(ev->status)); break;
    default: break;
  }
}

int main(int argc, char **argv) {
  int status = 0;
  const char *command = argc > 2 ? argv[1] : "";
  if (argc > 2) set_up(argv[2]);
  if (strcmp(command, "metadata") == 0 && argc == 3) {
    metadata();
  } else if (strcmp(command, "create") == 0 && argc == 5) {
    status = create(argv[3], atoi(argv[4]));
  } else if (strcmp(command, "delete") == 0 && argc == 4) {
    status = delete_topic(argv[3]);
  } else if (strcmp(command, "produce") == 0 && argc >= 7) {
    int any = argc == 7 || strcmp(argv[7], "-") == 0;
    int32_t partition = any ? KLOOP_PARTITION_ANY : atoi(argv[7]);
    produce(argv[3], argv[4], argv[5], argv[6][0] == '1', partition);
  } else if (strcmp(command, "consume") == 0 && argc == 7) {
    consume(argv[3], atoi(argv[4]), argv[5], strtoull(argv[6], NULL, 10));
  } else {
    die("usage", "see interop/README.md");
  }
  tear_down();
  return status;
}
