/*
 * The part of the transport between ranks that talks to MPI. JavaScript calls it through plain C
 * functions that return at once: they start work, or look for some microseconds whether it is done.
 *
 * All memory that MPI sees is malloc'ed here. What a caller passes is read or written before the call
 * returns, so the garbage collector may move or free it afterwards; but what `wisp_allocate` has given
 * is used where it is, until the exchange has ended, and never freed.
 *
 * An exchange sends one message to every other rank: what this rank came for, and its bytes behind it
 * where they are few. Many bytes follow in a message of their own. So two ranks that came for
 * different things find out, whatever their sizes, and no receive is ever too small.
 *
 * A rank that has lost its part of an exchange comes without it and says so. It does not know how many
 * bytes the others bring, so each says in its first message what follows. None of them gets anything
 * then, and all are ready for the next exchange.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { TEXT_MOST = 480, INLINE_MOST = 8192, SPIN_MICROSECONDS = 2 };
enum { HEAD_TAG = 1, LEAVE_TAG = 2, BODY_TAGS = 16, BODY_TAG_COUNT = 4096 };
/* States that calls return; mpi_library.ts has the same. */
enum {
  PENDING = 0, DONE = 1, DIFFERS = 2, LEFT = 3, FAILED = 4, NO_MEMORY = 5, SPOILED = 6, MOVING = 7, SIZES = 8
};

struct head {
  uint64_t sequence;
  uint64_t hash;
  uint32_t text_length;
  /* Of a leaving rank: its text is the whole message of an error. */
  uint32_t whole;
  /* Bytes that follow in a message of their own. */
  uint32_t body;
  /* The rank comes without its part: its text says why. */
  uint32_t spoils;
};

enum { TOLD_MOST = sizeof(struct head) + TEXT_MOST, HEAD_MOST = TOLD_MOST + INLINE_MOST };

struct peer {
  /* Its newest head, and what it said when it left. */
  unsigned char in[HEAD_MOST], farewell[TOLD_MOST];
  int came, body_done, body_failed;
  /* Where a rank that comes without its part takes what follows, which nothing reads. */
  unsigned char *unread;
};

static struct {
  pthread_t thread;
  /* 0 while MPI starts, then 1, or -1 where it failed. */
  volatile int state;
  int rank, size, level, error;
  /* Microseconds of a wait before it gives way to other processes: they may be the ranks waited for. */
  int spin;
  MPI_Comm comm;
} mpi;

static struct {
  int active;
  uint64_t sequence;
  struct peer *peers;
  /* Heads that come, heads that go, bodies that come, bodies that go, farewells: `size` of each. */
  MPI_Request *requests;
  MPI_Status *statuses;
  int *indices;
  unsigned char out[HEAD_MOST], farewell[TOLD_MOST];
  int out_length;
  unsigned char *send, *receive;
  size_t send_room, receive_room;
  /* Where bytes come to, and where many own ones are sent from. */
  unsigned char *target;
  const unsigned char *source;
  int32_t *counts;
  size_t *places;
  int failing_peer;
  /* The first rank that has left, or -1. */
  int left;
  /* The first rank that came to this exchange without its part, or -1. */
  int spoiled;
  /* Of an exchange in which every rank has other bytes for each: how many, and the head for each. */
  int is_to_all;
  int32_t *sends;
  unsigned char *outs;
  int *out_lengths;
} now = {.left = -1, .spoiled = -1};

/* What wisp_allocate has given, the newest first. */
static struct region {
  unsigned char *begin, *end;
  struct region *next;
} *regions;

static int64_t microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Memory that exchanges use where it is; its pages are there before the first. */
void *wisp_allocate(size_t bytes) {
  struct region *region = malloc(sizeof *region);
  unsigned char *memory = NULL;
  if (region == NULL || posix_memalign((void **)&memory, 4096, bytes) != 0) {
    free(region);
    return NULL;
  }
  memset(memory, 0, bytes);
  *region = (struct region){memory, memory + bytes, regions};
  regions = region;
  return memory;
}

static int is_allocated(const unsigned char *memory, size_t bytes) {
  for (const struct region *one = regions; one != NULL; one = one->next)
    if (memory >= one->begin && memory + bytes <= one->end) return 1;
  return 0;
}

/* Ends this process with the one that started it, also where it is stopped by a signal. */
int wisp_die_with_parent(int parent) {
#ifdef __linux__
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
#endif
  return getppid() == parent ? 0 : ESRCH;
}

/* Binds all threads of this process, and with them those that they start, to CPUs. */
int wisp_bind(const int32_t *cpus, int count) {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; i++) {
    if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE) return EINVAL;
    CPU_SET(cpus[i], &set);
  }
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return errno;
  int error = 0;
  for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
    /* A thread that has ended meanwhile needs no CPU. */
    if (thread > 0 && sched_setaffinity(thread, sizeof set, &set) != 0 && errno != ESRCH) error = errno;
  }
  closedir(tasks);
  return error;
#else
  (void)cpus;
  (void)count;
  return ENOSYS;
#endif
}

/* Without what libraries do at an end: UCX has been seen to wait there for ranks that are gone. */
void wisp_exit(int code) { _exit(code); }

/*
 * Tells the launcher that has started this rank, MPICH's mpiexec or its kin, that it ends in order: what
 * MPI_Finalize says last. Without it that launcher ends all other ranks by force. Waits a second at most.
 */
int wisp_sign_off(int fd) {
  static const char said[] = "cmd=finalize\n";
  struct pollfd heard = {fd, POLLIN, 0};
  char answer[256];
  if (write(fd, said, sizeof said - 1) != sizeof said - 1) return errno;
  return poll(&heard, 1, 1000) == 1 && read(fd, answer, sizeof answer) > 0 ? 0 : ETIMEDOUT;
}

/* Whether the ranks of this machine have a CPU each, as far as MPI and the system tell. */
static int have_cpus(void) {
  int ranks = 1;
  MPI_Comm machine;
  if (MPI_Comm_split_type(mpi.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine) != MPI_SUCCESS)
    return 0;
  MPI_Comm_size(machine, &ranks);
  MPI_Comm_free(&machine);
  return ranks <= sysconf(_SC_NPROCESSORS_ONLN);
}

static void *start(void *unused) {
  (void)unused;
  int done = 0;
  MPI_Initialized(&done);
  int error = done ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &mpi.level);
  if (error == MPI_SUCCESS) error = MPI_Comm_dup(MPI_COMM_WORLD, &mpi.comm);
  if (error == MPI_SUCCESS) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi.comm, &mpi.rank);
    MPI_Comm_size(mpi.comm, &mpi.size);
    mpi.spin = have_cpus() ? SPIN_MICROSECONDS : 0;
  }
  mpi.error = error;
  __atomic_store_n(&mpi.state, error == MPI_SUCCESS && mpi.level >= MPI_THREAD_SERIALIZED ? 1 : -1,
                   __ATOMIC_RELEASE);
  return NULL;
}

/* MPI waits for all ranks while it starts, so it does that in a thread of its own. */
int wisp_start(void) { return pthread_create(&mpi.thread, NULL, start, NULL); }

/* out: rank, size, level of threads, error of MPI. */
int wisp_started(int32_t *out) {
  int state = __atomic_load_n(&mpi.state, __ATOMIC_ACQUIRE);
  if (state == 0) return 0;
  out[0] = mpi.rank;
  out[1] = mpi.size;
  out[2] = mpi.level;
  out[3] = mpi.error;
  if (state < 0 || now.peers != NULL) return state;
  pthread_join(mpi.thread, NULL);
  now.peers = calloc(mpi.size, sizeof(struct peer));
  now.requests = malloc(5 * mpi.size * sizeof(MPI_Request));
  now.statuses = malloc(5 * mpi.size * sizeof(MPI_Status));
  now.indices = malloc(5 * mpi.size * sizeof(int));
  now.counts = malloc(mpi.size * sizeof(int32_t));
  now.places = malloc(mpi.size * sizeof(size_t));
  now.sends = malloc(mpi.size * sizeof(int32_t));
  now.outs = malloc((size_t)mpi.size * HEAD_MOST);
  now.out_lengths = malloc(mpi.size * sizeof(int));
  if (!now.peers || !now.requests || !now.statuses || !now.indices || !now.counts || !now.places ||
      !now.sends || !now.outs || !now.out_lengths)
    return -1;
  for (int i = 0; i < 5 * mpi.size; i++) now.requests[i] = MPI_REQUEST_NULL;
  for (int peer = 0; peer < mpi.size; peer++) {
    if (peer == mpi.rank) continue;
    if (MPI_Irecv(now.peers[peer].farewell, TOLD_MOST, MPI_BYTE, peer, LEAVE_TAG, mpi.comm,
                  &now.requests[4 * mpi.size + peer]) != MPI_SUCCESS)
      return -1;
  }
  return state;
}

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *text, int length) {
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < length; i++) hash = (hash ^ text[i]) * 1099511628211u;
  return hash;
}

/*
 * Of an exchange and no other near it: a rank that is ahead, as another has come without its part, must
 * not send what follows its next head into what this one still waits for.
 */
static int body_tag(void) { return BODY_TAGS + (int)(now.sequence % BODY_TAG_COUNT); }

static int head_into(unsigned char *out, const unsigned char *text, int length, struct head head) {
  head.sequence = now.sequence;
  head.hash = hash_of(text, length);
  head.text_length = length < TEXT_MOST ? length : TEXT_MOST;
  memcpy(out, &head, sizeof head);
  memcpy(out + sizeof head, text, head.text_length);
  return sizeof head + head.text_length;
}

static int has_room(unsigned char **memory, size_t *room, size_t wanted) {
  if (wanted <= *room) return 1;
  unsigned char *larger = realloc(*memory, wanted);
  if (larger == NULL) return 0;
  *memory = larger;
  *room = wanted;
  return 1;
}

static struct head head_of(int peer) {
  struct head head;
  memcpy(&head, now.peers[peer].in, sizeof head);
  return head;
}

/* Whether a peer's newest message is of the exchange that this rank is at. */
static int agrees(int peer) {
  struct head own, other = head_of(peer);
  memcpy(&own, now.out, sizeof own);
  return own.sequence == other.sequence && own.hash == other.hash &&
         own.text_length == other.text_length &&
         memcmp(now.out + sizeof own, now.peers[peer].in + sizeof own, own.text_length) == 0;
}

static int fails(int peer, int state) {
  now.failing_peer = peer;
  now.active = 0;
  return state;
}

/* A peer has come without its part: nothing follows. */
static int take_nothing(int peer) {
  MPI_Request *body = &now.requests[2 * mpi.size + peer];
  now.peers[peer].body_done = 1;
  if (now.spoiled < 0) now.spoiled = peer;
  if (*body == MPI_REQUEST_NULL) return PENDING;
  if (MPI_Cancel(body) != MPI_SUCCESS || MPI_Wait(body, MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return fails(peer, FAILED);
  return PENDING;
}

/* Takes what a peer sends behind its head, for which this rank has no use. */
static int take_unread(int peer, uint32_t length) {
  struct peer *other = &now.peers[peer];
  other->body_done = length == 0;
  now.counts[peer] = length;
  if (length == 0) return PENDING;
  if (length > INT_MAX) return fails(peer, FAILED);
  other->unread = malloc(length);
  if (other->unread == NULL) return fails(mpi.rank, NO_MEMORY);
  int error = MPI_Irecv(other->unread, length, MPI_BYTE, peer, body_tag(), mpi.comm,
                        &now.requests[2 * mpi.size + peer]);
  return error == MPI_SUCCESS ? PENDING : fails(peer, FAILED);
}

/* Whether a peer has as many bytes for this rank as it is to have. */
static int brings(int peer, int behind) {
  int32_t count = now.counts[peer];
  uint32_t body = head_of(peer).body;
  return count > INLINE_MOST ? body == (uint32_t)count : body == 0 && behind == count;
}

static int take_head(int peer, const MPI_Status *status) {
  int length = 0;
  MPI_Get_count(status, MPI_BYTE, &length);
  struct head head = head_of(peer);
  size_t begin = sizeof head + head.text_length;
  now.peers[peer].came = 1;
  if (length < (int)sizeof head || head.text_length > TEXT_MOST) return fails(peer, FAILED);
  if (head.spoils && head.sequence == now.sequence) return take_nothing(peer);
  if (now.spoiled == mpi.rank && head.sequence == now.sequence) return take_unread(peer, head.body);
  if (!agrees(peer)) return fails(peer, DIFFERS);
  if (now.is_to_all && !brings(peer, length - (int)begin)) return fails(peer, SIZES);
  if (now.counts[peer] > INLINE_MOST) return now.peers[peer].body_failed ? fails(peer, FAILED) : PENDING;
  if (begin + now.counts[peer] != (size_t)length) return fails(peer, FAILED);
  memcpy(now.target + now.places[peer], now.peers[peer].in + begin, now.counts[peer]);
  now.peers[peer].body_done = 1;
  return PENDING;
}

static int take_body(int peer, int ok, const MPI_Status *status) {
  int length = 0;
  if (ok) MPI_Get_count(status, MPI_BYTE, &length);
  now.peers[peer].body_done = ok && length == now.counts[peer];
  now.peers[peer].body_failed = !now.peers[peer].body_done;
  /* Its head says why, once that is here. */
  return now.peers[peer].body_failed && now.peers[peer].came ? fails(peer, FAILED) : PENDING;
}

/* One look at all messages that are on their way. */
static int look(void) {
  int count = 0, size = mpi.size;
  int error = MPI_Testsome(5 * size, now.requests, &count, now.indices, now.statuses);
  if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return fails(mpi.rank, FAILED);
  if (count == MPI_UNDEFINED) return DONE;
  for (int i = 0; i < count; i++) {
    int index = now.indices[i], peer = index % size, state = PENDING;
    int ok = error == MPI_SUCCESS || now.statuses[i].MPI_ERROR == MPI_SUCCESS;
    if (index >= 4 * size) {
      if (now.left < 0) now.left = peer;
    } else if (index >= 2 * size && index < 3 * size) {
      state = take_body(peer, ok, &now.statuses[i]);
    } else if (!ok) {
      state = fails(peer, FAILED);
    } else if (index < size) {
      state = take_head(peer, &now.statuses[i]);
    }
    if (state != PENDING) return state;
  }
  int waits = 0;
  for (int i = 0; i < 4 * size; i++) waits |= now.requests[i] != MPI_REQUEST_NULL;
  if (!waits) return now.spoiled < 0 ? DONE : fails(now.spoiled, SPOILED);
  return now.left < 0 ? PENDING : fails(now.left, LEFT);
}

/* Whether all ranks have come: what is left is on its way, and moves while both ends look. */
static int moves(void) {
  for (int peer = 0; peer < mpi.size; peer++)
    if (!now.peers[peer].came) return 0;
  return 1;
}

/* Brings what all ranks have to the caller; many own bytes are where they were sent from. */
static void deliver(unsigned char *into) {
  if (now.target != now.receive) return;
  if (now.is_to_all) {
    int end = mpi.size - 1;
    memcpy(into, now.receive, now.places[end] + now.counts[end]);
    return;
  }
  int rank = mpi.rank, last = mpi.size - 1;
  size_t own = now.places[rank], behind = own + now.counts[rank];
  if (now.counts[rank] <= INLINE_MOST) {
    memcpy(into, now.receive, now.places[last] + now.counts[last]);
    return;
  }
  memcpy(into, now.receive, own);
  memcpy(into + own, now.source, now.counts[rank]);
  memcpy(into + behind, now.receive + behind, now.places[last] + now.counts[last] - behind);
}

/* Looks until the exchange is done, at most `slice` microseconds; gives way to other processes. */
int wisp_poll(unsigned char *into, int slice) {
  if (!now.active) return FAILED;
  int64_t begun = 0;
  int yields = 0;
  for (int round = 0;; round++) {
    int state = look();
    if (state == DONE) {
      now.active = 0;
      deliver(into);
    }
    if (state != PENDING) return state;
    /* The clock is read where it may matter. */
    if (!yields || round % 8 == 0) {
      int64_t time = microseconds();
      if (begun == 0) begun = time;
      if (time - begun >= slice) return moves() ? MOVING : PENDING;
      yields = time - begun >= mpi.spin;
    }
    /*
     * Ranks that come together over shared memory are done before the system would have another process
     * run and this again. A look at a socket takes as long as that.
     */
    if (yields) sched_yield();
  }
}

/* Moves what this rank has sent on its way, while it takes part in no exchange. */
int wisp_progress(void) {
  int count = 0;
  if (mpi.size == 1 || now.active) return DONE;
  int error = MPI_Testsome(mpi.size, now.requests + 4 * mpi.size, &count, now.indices, now.statuses);
  if (error != MPI_SUCCESS) return FAILED;
  for (int i = 0; i < count && count != MPI_UNDEFINED; i++)
    if (now.left < 0) now.left = now.indices[i];
  return DONE;
}

/*
 * Begins to receive what every peer is to bring. Each rank begins with the one behind it, so that not all
 * send to the first at once.
 */
static int begin_to_receive(void) {
  int size = mpi.size, error = MPI_SUCCESS;
  MPI_Request *heads = now.requests, *bodies = heads + 2 * size;
  now.active = 1;
  for (int step = 1; step < size && error == MPI_SUCCESS; step++) {
    int peer = (mpi.rank + step) % size;
    error = MPI_Irecv(now.peers[peer].in, HEAD_MOST, MPI_BYTE, peer, HEAD_TAG, mpi.comm, &heads[peer]);
    if (error == MPI_SUCCESS && now.counts[peer] > INLINE_MOST)
      error = MPI_Irecv(now.target + now.places[peer], now.counts[peer], MPI_BYTE, peer, body_tag(),
                        mpi.comm, &bodies[peer]);
  }
  return error;
}

/* Begins to receive from every peer, and to send to all of them what `out` has. */
static int begin(size_t own) {
  int rank = mpi.rank, size = mpi.size, error = begin_to_receive();
  MPI_Request *sent = now.requests + size, *sent_bodies = sent + 2 * size;
  for (int step = 1; step < size && error == MPI_SUCCESS; step++) {
    int peer = (rank + step) % size;
    error = MPI_Isend(now.out, now.out_length, MPI_BYTE, peer, HEAD_TAG, mpi.comm, &sent[peer]);
    if (error == MPI_SUCCESS && own > INLINE_MOST)
      error = MPI_Isend(now.source, own, MPI_BYTE, peer, body_tag(), mpi.comm, &sent_bodies[peer]);
  }
  return error == MPI_SUCCESS ? PENDING : fails(rank, FAILED);
}

/* The same where every peer is to bring, and gets, bytes of its own. */
static int begin_to_all(void) {
  int rank = mpi.rank, size = mpi.size, error = begin_to_receive();
  MPI_Request *sent = now.requests + size, *sent_bodies = sent + 2 * size;
  size_t place = 0;
  const unsigned char *own = now.source;
  for (int peer = 0; peer < rank; peer++) place += now.sends[peer];
  for (int step = 1; step < size && error == MPI_SUCCESS; step++) {
    int before = (rank + step - 1) % size, peer = (rank + step) % size;
    place = peer == 0 ? 0 : place + now.sends[before];
    int32_t count = now.sends[peer];
    unsigned char *out = now.outs + (size_t)peer * HEAD_MOST;
    if (count <= INLINE_MOST) {
      memcpy(out + now.out_lengths[peer], own + place, count);
      now.out_lengths[peer] += count;
    }
    error = MPI_Isend(out, now.out_lengths[peer], MPI_BYTE, peer, HEAD_TAG, mpi.comm, &sent[peer]);
    if (error == MPI_SUCCESS && count > INLINE_MOST)
      error = MPI_Isend(own + place, count, MPI_BYTE, peer, body_tag(), mpi.comm, &sent_bodies[peer]);
  }
  return error == MPI_SUCCESS ? PENDING : fails(rank, FAILED);
}

static void expect(int peer, size_t place, int32_t count) {
  struct peer *other = &now.peers[peer];
  now.counts[peer] = count;
  now.places[peer] = place;
  other->came = other->body_done = peer == mpi.rank;
  other->body_failed = 0;
  free(other->unread);
  other->unread = NULL;
}

/*
 * Comes without a part to the exchange that the others come to now, whatever they bring: no rank gets
 * anything, and each is told the text.
 */
int wisp_spoil(const unsigned char *text, int text_length, int slice) {
  if (now.left >= 0) return fails(now.left, LEFT);
  for (int peer = 0; peer < mpi.size; peer++) expect(peer, 0, 0);
  now.spoiled = mpi.rank;
  now.is_to_all = 0;
  now.sequence++;
  now.out_length = head_into(now.out, text, text_length, (struct head){.spoils = 1});
  memcpy(now.peers[mpi.rank].in, now.out, now.out_length);
  int state = begin(0);
  return state == PENDING ? wisp_poll(NULL, slice) : state;
}

/* Begins an exchange, and looks whether it is done: see wisp_poll. */
int wisp_gather(const unsigned char *text, int text_length, const unsigned char *part,
                const int32_t *counts, unsigned char *into, int slice) {
  int rank = mpi.rank;
  size_t total = 0;
  if (now.left >= 0) return fails(now.left, LEFT);
  for (int peer = 0; peer < mpi.size; peer++) {
    expect(peer, total, counts[peer]);
    total += counts[peer];
  }
  now.spoiled = -1;
  now.is_to_all = 0;
  size_t own = counts[rank];
  int is_direct = is_allocated(into, total), is_sent_direct = is_allocated(part, own);
  if (!is_direct && !has_room(&now.receive, &now.receive_room, total)) return NO_MEMORY;
  if (own > INLINE_MOST && !is_direct && !is_sent_direct &&
      !has_room(&now.send, &now.send_room, own)) return NO_MEMORY;
  now.target = is_direct ? into : now.receive;
  now.sequence++;
  uint32_t body = own > INLINE_MOST ? own : 0;
  now.out_length = head_into(now.out, text, text_length, (struct head){.body = body});
  unsigned char *place = now.target + now.places[rank];
  if (place != part && (is_direct || own <= INLINE_MOST)) memcpy(place, part, own);
  if (own <= INLINE_MOST) {
    memcpy(now.out + now.out_length, part, own);
    now.out_length += own;
  } else if (is_sent_direct) {
    now.source = part;
  } else if (is_direct) {
    now.source = place;
  } else {
    memcpy(now.send, part, own);
    now.source = now.send;
  }
  int state = begin(own);
  return state == PENDING ? wisp_poll(into, slice) : state;
}

/*
 * Begins an exchange in which every rank has bytes of its own for each other, `sends` of them, and gets
 * `counts` of each; both are in the order of ranks, one behind the other. See wisp_poll.
 */
int wisp_all_to_all(const unsigned char *text, int text_length, const unsigned char *part,
                    const int32_t *sends, unsigned char *into, const int32_t *counts, int slice) {
  int rank = mpi.rank, size = mpi.size;
  size_t total = 0, sent = 0, own = 0;
  if (now.left >= 0) return fails(now.left, LEFT);
  for (int peer = 0; peer < size; peer++) {
    expect(peer, total, counts[peer]);
    total += counts[peer];
    if (peer == rank) own = sent;
    sent += sends[peer];
    now.sends[peer] = sends[peer];
  }
  now.spoiled = -1;
  now.is_to_all = 1;
  int is_direct = is_allocated(into, total), is_sent_direct = is_allocated(part, sent);
  if (!is_direct && !has_room(&now.receive, &now.receive_room, total)) return NO_MEMORY;
  if (!is_sent_direct && !has_room(&now.send, &now.send_room, sent)) return NO_MEMORY;
  now.target = is_direct ? into : now.receive;
  if (!is_sent_direct) memcpy(now.send, part, sent);
  now.source = is_sent_direct ? part : now.send;
  memcpy(now.target + now.places[rank], now.source + own, counts[rank]);
  now.sequence++;
  now.out_length = head_into(now.out, text, text_length, (struct head){0});
  for (int peer = 0; peer < size; peer++) {
    uint32_t body = sends[peer] > INLINE_MOST ? sends[peer] : 0;
    now.out_lengths[peer] =
        head_into(now.outs + (size_t)peer * HEAD_MOST, text, text_length, (struct head){.body = body});
  }
  int state = begin_to_all();
  return state == PENDING ? wisp_poll(into, slice) : state;
}

/* Tells every rank that this one is gone: those that wait hear it at once, others when they come. */
int wisp_leave(const unsigned char *text, int text_length, int whole) {
  static int told;
  if (told || now.peers == NULL) return DONE;
  told = 1;
  now.active = 0;
  int length = head_into(now.farewell, text, text_length, (struct head){.whole = whole}), done = 0;
  MPI_Request *requests = malloc(mpi.size * sizeof(MPI_Request));
  MPI_Status *statuses = malloc(mpi.size * sizeof(MPI_Status));
  if (requests == NULL || statuses == NULL) return NO_MEMORY;
  for (int peer = 0; peer < mpi.size; peer++) {
    requests[peer] = MPI_REQUEST_NULL;
    if (peer == mpi.rank) continue;
    if (MPI_Isend(now.farewell, length, MPI_BYTE, peer, LEAVE_TAG, mpi.comm, &requests[peer]) !=
        MPI_SUCCESS)
      return FAILED;
  }
  /* So short a message is on its way soon, and a rank that is gone must not hold this one up. */
  for (int64_t end = microseconds() + 2000; !done && microseconds() < end; sched_yield())
    if (MPI_Testall(mpi.size, requests, &done, statuses) != MPI_SUCCESS) return FAILED;
  return done ? DONE : PENDING;
}

/*
 * The rank that an exchange failed for, and what it came with or left with. out: rank, whether the
 * text is a whole message. Returns the length of the text.
 */
int wisp_failing_peer(int state, int32_t *out, unsigned char *text) {
  struct peer *peer = &now.peers[now.failing_peer];
  const unsigned char *told = state == LEFT ? peer->farewell : peer->in;
  struct head head;
  memcpy(&head, told, sizeof head);
  int length = head.text_length < TEXT_MOST ? head.text_length : TEXT_MOST;
  memcpy(text, told + sizeof head, length);
  out[0] = now.failing_peer;
  out[1] = head.whole;
  return length;
}

/* Writes 1 for each rank whose bytes are here, 0 for others; returns how many are missing. */
int wisp_arrived(unsigned char *out) {
  int missing = 0;
  for (int peer = 0; peer < mpi.size; peer++) {
    out[peer] = now.peers[peer].came && now.peers[peer].body_done;
    missing += !out[peer];
  }
  return missing;
}
