/*
 * A driver for UW c-client: reads commands from standard input, one a line, and answers each with
 * data lines and a line holding a single dot. It is a peer for tests and is linked into nothing.
 *
 *   open NAME      open a mailbox; answers its number of messages
 *   examine NAME   the same, read-only
 *   status         messages, recent, UIDVALIDITY and last UID
 *   uids           a UID a line
 *   flags          a line a message: flag letters ADFSTR (or -), then keywords
 *   dates          a line a message: the internal date as dd-mmm-yyyy hh:mm:ss +zzzz
 *   sizes          a line a message: RFC822.SIZE
 *   subjects       a line a message: a space and the subject of the envelope
 *   ids            a line a message: a space and the Message-ID of the envelope
 *   header N       the header of message N, CR removed, each line with a space before it
 *   text N         the same for the body
 *   fetch all      flags, dates, sizes and envelopes of all messages; answers how many there are
 *   fetch full     structures and whole texts besides; answers how many, and the bytes of the texts
 *   bodies N M     header and text of messages N to M, each as with "header" and "text" and then a
 *                  line "="
 *   search WORD    the messages with WORD in their texts, as numbers
 *   thread ALG     THREAD ALG UTF-8 ALL in the syntax of RFC 5256
 *   sort KEY ...   message numbers; REVERSE stands before its key
 *   flag SEQ FLAG  set, unflag SEQ FLAG clear; setflag and clearflag are the same
 *   expunge, check, ping, close, quit
 *   append NAME FILE       append the messages of FILE to a mailbox, which need not be open, one by
 *                          one; FILE holds before each message a line with its length in bytes;
 *                          line ends are CRLF. Answers how many were appended
 *   multiappend NAME FILE  the same with one call for all
 *
 * What the library logs comes as lines that start with "!".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <c-client/c-client.h>

static MAILSTREAM *box = NIL;

void mm_flags(MAILSTREAM *s, unsigned long n) { (void)s; (void)n; }
void mm_status(MAILSTREAM *s, char *m, MAILSTATUS *t) { (void)s; (void)m; (void)t; }
static int is_searching = 0;
void mm_searched(MAILSTREAM *s, unsigned long n) {
  (void)s;
  if (is_searching) printf("%lu\n", n);
}
void mm_exists(MAILSTREAM *s, unsigned long n) { (void)s; (void)n; }
void mm_expunged(MAILSTREAM *s, unsigned long n) { (void)s; (void)n; }
void mm_list(MAILSTREAM *s, int d, char *n, long a) { (void)s; (void)d; (void)n; (void)a; }
void mm_lsub(MAILSTREAM *s, int d, char *n, long a) { (void)s; (void)d; (void)n; (void)a; }
void mm_notify(MAILSTREAM *s, char *t, long e) { (void)s; (void)e; printf("! %s\n", t); }
void mm_log(char *t, long e) { printf("! %ld %s\n", e, t); }
void mm_dlog(char *t) { (void)t; }
void mm_login(NETMBX *m, char *u, char *p, long t) { (void)m; (void)t; *u = *p = 0; }
void mm_critical(MAILSTREAM *s) { (void)s; }
void mm_nocritical(MAILSTREAM *s) { (void)s; }
void mm_fatal(char *t) { printf("! fatal %s\n", t); }
long mm_diskerror(MAILSTREAM *s, long e, long serious) {
  (void)s; (void)serious;
  printf("! disk error %ld\n", e);
  return 1;
}

static void print_threads(THREADNODE *node) {
  for (; node; node = node->branch) {
    THREADNODE *next = node->next;
    putchar('(');
    if (node->num) printf("%lu", node->num);
    if (node->num && next) putchar(' ');
    while (next) {
      if (next->branch) {
        print_threads(next);
        break;
      }
      printf("%lu", next->num);
      if ((next = next->next)) putchar(' ');
    }
    putchar(')');
  }
}

static void threads(char *algorithm) {
  SEARCHPGM *all = mail_newsearchpgm();
  THREADNODE *tree = mail_thread(box, algorithm, "UTF-8", all, SE_FREE);
  print_threads(tree);
  putchar('\n');
  if (tree) mail_free_threadnode(&tree);
}

static int sort_function(const char *key) {
  static const char *names[] = {"DATE", "ARRIVAL", "FROM", "SUBJECT", "TO", "CC", "SIZE"};
  int i;
  for (i = 0; i < 7; i++)
    if (!strcasecmp(key, names[i])) return i;
  return -1;
}

static void sorted(char *keys) {
  SORTPGM *program = NIL, **tail = &program;
  int reverse = 0;
  unsigned long *numbers, *n;
  char *key;
  for (key = strtok(keys, " "); key; key = strtok(NULL, " ")) {
    if (!strcasecmp(key, "REVERSE")) { reverse = 1; continue; }
    if (sort_function(key) < 0) { printf("! unknown key %s\n", key); return; }
    *tail = mail_newsortpgm();
    (*tail)->function = sort_function(key);
    (*tail)->reverse = reverse;
    tail = &(*tail)->next;
    reverse = 0;
  }
  if (!program) return;
  numbers = mail_sort(box, "UTF-8", mail_newsearchpgm(), program, SE_FREE | SO_FREE);
  for (n = numbers; n && *n; n++) printf(n == numbers ? "%lu" : " %lu", *n);
  putchar('\n');
  if (numbers) fs_give((void **)&numbers);
}

static void flags(void) {
  unsigned long i;
  int k;
  char all[16];
  snprintf(all, sizeof all, "1:%lu", box->nmsgs);
  if (box->nmsgs) mail_fetch_flags(box, all, 0);
  for (i = 1; i <= box->nmsgs; i++) {
    MESSAGECACHE *m = mail_elt(box, i);
    printf("%s%s%s%s%s%s-", m->answered ? "A" : "", m->deleted ? "D" : "",
           m->flagged ? "F" : "", m->seen ? "S" : "", m->draft ? "T" : "", m->recent ? "R" : "");
    for (k = 0; k < NUSERFLAGS; k++)
      if (m->user_flags & (1UL << k) && box->user_flags[k]) printf(" %s", box->user_flags[k]);
    putchar('\n');
  }
}

static void dates(void) {
  unsigned long i;
  char all[16], text[MAILTMPLEN];
  snprintf(all, sizeof all, "1:%lu", box->nmsgs);
  if (box->nmsgs) mail_fetch_fast(box, all, 0);
  for (i = 1; i <= box->nmsgs; i++) puts(mail_date(text, mail_elt(box, i)));
}

static void sizes(void) {
  unsigned long i;
  char all[16];
  snprintf(all, sizeof all, "1:%lu", box->nmsgs);
  if (box->nmsgs) mail_fetch_fast(box, all, 0);
  for (i = 1; i <= box->nmsgs; i++) printf("%lu\n", mail_elt(box, i)->rfc822_size);
}

static void envelopes(int subject) {
  unsigned long i;
  for (i = 1; i <= box->nmsgs; i++) {
    ENVELOPE *e = mail_fetch_structure(box, i, NIL, 0);
    char *s = e ? (subject ? e->subject : e->message_id) : NIL;
    putchar(' ');
    for (; s && *s; s++) putchar(*s == '\n' || *s == '\r' ? ' ' : *s);
    putchar('\n');
  }
}

static void lines(const char *text, unsigned long len) {
  unsigned long i;
  int start = 1;
  for (i = 0; i < len; i++) {
    if (start) putchar(' ');
    start = 0;
    if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n') continue;
    putchar(text[i]);
    start = text[i] == '\n';
  }
  if (!start) putchar('\n');
}

static void text(unsigned long n, int header) {
  unsigned long len = 0;
  char *s;
  if (!n || n > box->nmsgs) { puts("! no such message"); return; }
  s = header ? mail_fetch_header(box, n, NIL, NIL, &len, FT_PEEK)
             : mail_fetch_text(box, n, NIL, &len, FT_PEEK);
  if (s) lines(s, len);
}

static void fetch(int full) {
  unsigned long i, len, bytes = 0;
  char all[16];
  snprintf(all, sizeof all, "1:%lu", box->nmsgs);
  if (box->nmsgs) mail_fetch_fast(box, all, 0);
  for (i = 1; i <= box->nmsgs; i++) {
    BODY *body = NIL;
    mail_fetch_structure(box, i, full ? &body : NIL, 0);
    len = 0;
    if (full) mail_fetch_message(box, i, &len, FT_PEEK);
    bytes += len;
  }
  printf("%lu %lu\n", box->nmsgs, bytes);
}

static void bodies(char *rest) {
  char *end;
  unsigned long n = strtoul(rest, &end, 10), last = strtoul(end, NULL, 10);
  for (; n && n <= last && n <= box->nmsgs; n++) {
    text(n, 1);
    text(n, 0);
    puts("=");
  }
}

static void find(char *word) {
  SEARCHPGM *program = mail_newsearchpgm();
  program->body = mail_newstringlist();
  program->body->text.data = (unsigned char *)cpystr(word);
  program->body->text.size = strlen(word);
  is_searching = 1;
  mail_search_full(box, "UTF-8", program, SE_FREE);
  is_searching = 0;
}

static void change(char *rest, long how) {
  char *flag = strchr(rest, ' ');
  if (!flag) { puts("! needs a sequence and a flag"); return; }
  *flag++ = 0;
  mail_flag(box, rest, flag, how);
}

/* Messages on their way to a mailbox. */
typedef struct {
  FILE *file;
  char *text;
  STRING string;
  unsigned long done;
} BATCH;

/* Reads the next message; 0 at the end, or if the file is not as it should be. */
static int next(BATCH *batch) {
  char number[32];
  unsigned long len;
  free(batch->text);
  batch->text = NULL;
  if (!fgets(number, sizeof number, batch->file)) return 0;
  len = strtoul(number, NULL, 10);
  if (!len || !(batch->text = malloc(len)) || fread(batch->text, 1, len, batch->file) != len) {
    puts("! no such message");
    return 0;
  }
  INIT(&batch->string, mail_string, batch->text, len);
  batch->done++;
  return 1;
}

static long hand_over(MAILSTREAM *s, void *data, char **flags, char **date, STRING **message) {
  BATCH *batch = data;
  (void)s;
  *flags = *date = NIL;
  *message = next(batch) ? &batch->string : NIL;
  return LONGT;
}

static void append(char *name, int at_once) {
  BATCH batch = {0};
  char *path = strchr(name, ' ');
  long ok = LONGT;
  if (path) *path++ = 0;
  if (!path || !(batch.file = fopen(path, "r"))) { puts("! needs a mailbox and a file"); return; }
  if (at_once) ok = mail_append_multiple(NIL, name, hand_over, &batch);
  else while (ok && next(&batch)) ok = mail_append(NIL, name, &batch.string);
  if (ok) printf("%lu\n", batch.done);
  free(batch.text);
  fclose(batch.file);
}

/* Commands on the open mailbox; 0 if the word is unknown. */
static int inside(char *word, char *rest) {
  unsigned long i;
  if (!strcmp(word, "status"))
    printf("%lu %lu %lu %lu\n", box->nmsgs, box->recent, box->uid_validity, box->uid_last);
  else if (!strcmp(word, "uids"))
    for (i = 1; i <= box->nmsgs; i++) printf("%lu\n", mail_uid(box, i));
  else if (!strcmp(word, "flags")) flags();
  else if (!strcmp(word, "dates")) dates();
  else if (!strcmp(word, "sizes")) sizes();
  else if (!strcmp(word, "subjects")) envelopes(1);
  else if (!strcmp(word, "ids")) envelopes(0);
  else if (!strcmp(word, "header")) text(strtoul(rest, NULL, 10), 1);
  else if (!strcmp(word, "text")) text(strtoul(rest, NULL, 10), 0);
  else if (!strcmp(word, "fetch")) fetch(!strcmp(rest, "full"));
  else if (!strcmp(word, "bodies")) bodies(rest);
  else if (!strcmp(word, "search")) find(rest);
  else if (!strcmp(word, "thread")) threads(rest);
  else if (!strcmp(word, "sort")) sorted(rest);
  else if (!strcmp(word, "flag") || !strcmp(word, "setflag")) change(rest, ST_SET);
  else if (!strcmp(word, "unflag") || !strcmp(word, "clearflag")) change(rest, 0);
  else if (!strcmp(word, "expunge")) mail_expunge(box);
  else if (!strcmp(word, "check")) mail_check(box);
  else if (!strcmp(word, "ping")) mail_ping(box);
  else if (!strcmp(word, "close")) box = mail_close(box);
  else return 0;
  return 1;
}

int main(void) {
  static char line[65536];
  mail_link(&mixdriver);
  mail_link(&mbxdriver);
  mail_link(&tenexdriver);
  mail_link(&mtxdriver);
  mail_link(&mhdriver);
  mail_link(&mmdfdriver);
  mail_link(&unixdriver);
  mail_link(&dummydriver);
  mail_parameters(NIL, SET_DISABLEPLAINTEXT, (void *)2);
  while (fgets(line, sizeof line, stdin)) {
    char *rest;
    line[strcspn(line, "\n")] = 0;
    rest = strchr(line, ' ');
    if (rest) *rest++ = 0; else rest = line + strlen(line);
    if (!strcmp(line, "quit")) break;
    if (!strcmp(line, "open") || !strcmp(line, "examine")) {
      if (box) mail_close(box);
      box = mail_open(NIL, rest, *line == 'e' ? OP_READONLY : 0);
      if (box) printf("%lu\n", box->nmsgs); else puts("! not opened");
    }
    else if (!strcmp(line, "append")) append(rest, 0);
    else if (!strcmp(line, "multiappend")) append(rest, 1);
    else if (!box) puts("! no open mailbox");
    else if (!inside(line, rest)) puts("! unknown command");
    puts(".");
    fflush(stdout);
  }
  if (box) mail_close(box);
  return 0;
}
