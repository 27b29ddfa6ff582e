/*
 * The part of the transport of cache pages that talks to UCX. JavaScript calls it through plain C
 * functions that return at once: a thread does all that UCX is asked, one thing behind the other, and
 * sleeps where there is nothing to do. What it has done is told by a byte in a socket, and fetched.
 *
 * All memory that UCX sees is malloc'ed here. What a caller passes is read or written before the call
 * returns, so the garbage collector may move or free it afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

/* Kinds of work, and of what is told; ucx_library.ts has the same. */
enum { CONNECT = 1, SEND = 2, RECEIVE = 3, CLOSE = 4, FORGET = 5 };
/* Told in place of a status of UCX, which are 0 and less. */
enum { NO_MEMORY = 1, UNKNOWN_PEER = 2, WRONG_LENGTH = 3 };
/* Of a program: connections that a bootstrap port takes at most, and as many again that close. */
enum { PEERS_MOST = 512 };
/* Tags that are forgotten and looked for still. */
enum { FORGOTTEN_MOST = 64 };

struct work {
  struct work *next;
  int kind, status;
  /* Its number as the caller counts. */
  uint32_t id, peer;
  uint64_t tag;
  unsigned char *bytes;
  size_t length;
  void *request;
};

struct list {
  struct work *first, **end;
};

struct peer {
  uint32_t id;
  int used;
  /* What UCX said when it lost the other end. */
  ucs_status_t lost;
  ucp_ep_h endpoint;
};

static struct {
  int open, runs, ending, told_fds[2], wake_fds[2], ucx_fd;
  ucp_context_h context;
  ucp_worker_h worker;
  pthread_t thread;
  pthread_mutex_t lock;
  /* Asked and not begun; done and not fetched: both under the lock. */
  struct list asked, done;
  /* Work that UCX does: of the thread alone. */
  struct list begun;
  struct peer peers[PEERS_MOST];
  /* The latest of all that were forgotten. */
  uint64_t forgotten[FORGOTTEN_MOST];
  size_t forgotten_count;
} ucx = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void empty(struct list *list) {
  list->first = NULL;
  list->end = &list->first;
}

static void append(struct list *list, struct work *work) {
  work->next = NULL;
  *list->end = work;
  list->end = &work->next;
}

static struct work *take(struct list *list) {
  struct work *work = list->first;
  if (work == NULL) return NULL;
  list->first = work->next;
  if (list->first == NULL) list->end = &list->first;
  return work;
}

static void discard(struct work *work) {
  free(work->bytes);
  free(work);
}

static void ring(int fd) {
  ssize_t sent;
  do sent = write(fd, "", 1);
  while (sent < 0 && errno == EINTR);
}

/* A call that came before has said so, or the bytes that lie there say it already. */
static void drain(int fd) {
  char bytes[64];
  while (read(fd, bytes, sizeof bytes) > 0) {
  }
}

static void tell(struct work *work, int status) {
  work->status = status;
  /* A caller does not ask for what was sent. */
  if (work->kind == SEND) {
    free(work->bytes);
    work->bytes = NULL;
  }
  pthread_mutex_lock(&ucx.lock);
  int was_empty = ucx.done.first == NULL;
  append(&ucx.done, work);
  pthread_mutex_unlock(&ucx.lock);
  if (was_empty) ring(ucx.told_fds[1]);
}

static struct peer *peer_of(uint32_t id) {
  for (int i = 0; i < PEERS_MOST; i++)
    if (ucx.peers[i].used && ucx.peers[i].id == id) return &ucx.peers[i];
  return NULL;
}

static void on_lost(void *given, ucp_ep_h endpoint, ucs_status_t status) {
  (void)endpoint;
  struct peer *peer = given;
  if (peer->lost == UCS_OK) peer->lost = status;
}

static int connect_peer(struct work *work) {
  struct peer *peer = NULL;
  for (int i = 0; i < PEERS_MOST && peer == NULL; i++)
    if (!ucx.peers[i].used) peer = &ucx.peers[i];
  if (peer == NULL) return NO_MEMORY;
  ucp_ep_params_t params = {
      .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                    UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = (const ucp_address_t *)work->bytes,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {.cb = on_lost, .arg = peer},
  };
  peer->lost = UCS_OK;
  ucs_status_t status = ucp_ep_create(ucx.worker, &params, &peer->endpoint);
  if (status != UCS_OK) return status;
  peer->id = work->id;
  peer->used = 1;
  return 0;
}

static void close_peer(struct peer *peer) {
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                               .flags = UCP_EP_CLOSE_FLAG_FORCE};
  void *request = ucp_ep_close_nbx(peer->endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(ucx.worker);
    ucp_request_free(request);
  }
  peer->used = 0;
}

/* What has come for a tag that is not waited for any more. */
static void forget(uint64_t tag) {
  ucp_tag_recv_info_t info;
  ucp_tag_message_h message;
  while ((message = ucp_tag_probe_nb(ucx.worker, tag, UINT64_MAX, 1, &info)) != NULL) {
    void *unread = malloc(info.length ? info.length : 1);
    ucp_request_param_t param = {.op_attr_mask = 0};
    void *request = ucp_tag_msg_recv_nbx(ucx.worker, unread, unread ? info.length : 0, message, &param);
    if (UCS_PTR_IS_PTR(request)) {
      /* Its sender may be gone. */
      ucp_request_cancel(ucx.worker, request);
      while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(ucx.worker);
      ucp_request_free(request);
    }
    free(unread);
  }
}

/*
 * Forgets a tag, and what has come meanwhile for those that were forgotten last: pages that were on their
 * way then would stay for as long as the process.
 */
static void forget_latest(uint64_t tag) {
  ucx.forgotten[ucx.forgotten_count++ % FORGOTTEN_MOST] = tag;
  for (size_t i = 0; i < ucx.forgotten_count && i < FORGOTTEN_MOST; i++) forget(ucx.forgotten[i]);
}

/* Ends what is begun for a tag. */
static void cancel(uint64_t tag) {
  for (struct work *work = ucx.begun.first; work != NULL; work = work->next)
    if (work->kind == RECEIVE && work->tag == tag) ucp_request_cancel(ucx.worker, work->request);
}

/* Begins work; what is done at once is told. */
static void begin(struct work *work) {
  struct peer *peer = work->kind == SEND || work->kind == CLOSE ? peer_of(work->peer) : NULL;
  /* A receive that is done at once would not say how many bytes have come. */
  ucp_request_param_t param = {.op_attr_mask =
                                   work->kind == RECEIVE ? UCP_OP_ATTR_FLAG_NO_IMM_CMPL : 0};
  switch (work->kind) {
    case CONNECT:
      tell(work, connect_peer(work));
      return;
    case CLOSE:
      if (peer != NULL) close_peer(peer);
      discard(work);
      return;
    case FORGET:
      cancel(work->tag);
      forget_latest(work->tag);
      discard(work);
      return;
    case SEND:
      if (peer == NULL || peer->lost != UCS_OK) {
        tell(work, peer == NULL ? UNKNOWN_PEER : peer->lost);
        return;
      }
      work->request =
          ucp_tag_send_nbx(peer->endpoint, work->bytes, work->length, work->tag, &param);
      break;
    case RECEIVE:
      work->request = ucp_tag_recv_nbx(ucx.worker, work->bytes, work->length, work->tag,
                                       UINT64_MAX, &param);
      break;
  }
  if (work->request == NULL && work->kind == SEND) {
    tell(work, 0);
  } else if (UCS_PTR_IS_ERR(work->request)) {
    tell(work, UCS_PTR_STATUS(work->request));
  } else {
    append(&ucx.begun, work);
  }
}

/* Tells of what UCX has done. */
static int settle(void) {
  struct list left;
  empty(&left);
  int settled = 0;
  for (struct work *work; (work = take(&ucx.begun)) != NULL;) {
    ucp_tag_recv_info_t info = {.length = work->length};
    ucs_status_t status = work->kind == RECEIVE
                              ? ucp_tag_recv_request_test(work->request, &info)
                              : ucp_request_check_status(work->request);
    if (status == UCS_INPROGRESS) {
      append(&left, work);
      continue;
    }
    settled = 1;
    ucp_request_free(work->request);
    tell(work, status == UCS_OK && info.length != work->length ? WRONG_LENGTH : status);
  }
  if (left.first != NULL) {
    ucx.begun.first = left.first;
    ucx.begun.end = left.end;
  }
  return settled;
}

static void *run(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&ucx.lock);
    struct work *work = take(&ucx.asked);
    int ending = ucx.ending;
    pthread_mutex_unlock(&ucx.lock);
    if (ending) {
      if (work != NULL) discard(work);
      break;
    }
    if (work != NULL) {
      begin(work);
      continue;
    }
    int moved = ucp_worker_progress(ucx.worker) != 0;
    if (settle() || moved) continue;
    /* Something may have come since. */
    if (ucp_worker_arm(ucx.worker) != UCS_OK) continue;
    struct pollfd fds[2] = {{.fd = ucx.ucx_fd, .events = POLLIN},
                            {.fd = ucx.wake_fds[0], .events = POLLIN}};
    poll(fds, 2, -1);
    drain(ucx.wake_fds[0]);
  }
  for (int i = 0; i < PEERS_MOST; i++)
    if (ucx.peers[i].used) close_peer(&ucx.peers[i]);
  return NULL;
}

static struct work *new_work(int kind, uint32_t id, uint64_t tag, size_t length) {
  struct work *work = calloc(1, sizeof *work);
  if (work == NULL) return NULL;
  *work = (struct work){.kind = kind, .id = id, .tag = tag, .length = length};
  if (length > 0 && (work->bytes = malloc(length)) == NULL) {
    free(work);
    return NULL;
  }
  return work;
}

static int ask(struct work *work, uint32_t peer) {
  if (work == NULL) return NO_MEMORY;
  work->peer = peer;
  pthread_mutex_lock(&ucx.lock);
  append(&ucx.asked, work);
  pthread_mutex_unlock(&ucx.lock);
  ring(ucx.wake_fds[1]);
  return 0;
}

static uint64_t tag_of(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/*
 * Starts UCX on some devices, or on all where none are named. Writes a descriptor that can be read when
 * there is something to fetch. Returns a status of UCX, or an error of the system as a number above 0.
 */
int wisp_ucx_open(const char *devices, int *descriptor) {
  if (ucx.open) return EBUSY;
  ucp_config_t *config;
  ucs_status_t status = ucp_config_read(NULL, NULL, &config);
  if (status != UCS_OK) return status;
  if (devices[0] != 0) status = ucp_config_modify(config, "NET_DEVICES", devices);
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                         .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
  if (status == UCS_OK) status = ucp_init(&params, config, &ucx.context);
  ucp_config_release(config);
  if (status != UCS_OK) return status;
  ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SINGLE};
  status = ucp_worker_create(ucx.context, &worker, &ucx.worker);
  if (status != UCS_OK) goto no_worker;
  status = ucp_worker_get_efd(ucx.worker, &ucx.ucx_fd);
  if (status != UCS_OK) goto no_thread;
  int flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (socketpair(AF_UNIX, flags, 0, ucx.told_fds) != 0) {
    status = errno;
    goto no_thread;
  }
  if (pipe2(ucx.wake_fds, O_NONBLOCK | O_CLOEXEC) != 0) {
    status = errno;
    goto no_pipe;
  }
  empty(&ucx.asked);
  empty(&ucx.done);
  empty(&ucx.begun);
  ucx.ending = 0;
  ucx.open = 1;
  *descriptor = ucx.told_fds[0];
  return 0;
no_pipe:
  close(ucx.told_fds[0]);
  close(ucx.told_fds[1]);
no_thread:
  ucp_worker_destroy(ucx.worker);
no_worker:
  ucp_cleanup(ucx.context);
  return status;
}

/* How others reach this end: at most `most` bytes. Returns how many there are, or a status. */
int wisp_ucx_address(void *into, int most) {
  ucp_address_t *address;
  size_t length;
  ucs_status_t status = ucp_worker_get_address(ucx.worker, &address, &length);
  if (status != UCS_OK) return status;
  if (length <= (size_t)most) memcpy(into, address, length);
  ucp_worker_release_address(ucx.worker, address);
  return (int)length;
}

/* Begins to do what is asked; to be called once the address is known. Returns an error or 0. */
int wisp_ucx_start(void) {
  int error = pthread_create(&ucx.thread, NULL, run, NULL);
  ucx.runs = error == 0;
  return error;
}

int wisp_ucx_connect(uint32_t peer, const void *address, int length) {
  struct work *work = new_work(CONNECT, peer, 0, length);
  if (work != NULL) memcpy(work->bytes, address, length);
  return ask(work, peer);
}

/* Room for a message that is sent under this number, once its pieces are put. Returns NULL without memory. */
void *wisp_ucx_prepare(uint32_t id, uint32_t low, uint32_t high, int length) {
  return new_work(SEND, id, tag_of(low, high), length);
}

void wisp_ucx_put(void *message, int at, const void *bytes, int length) {
  memcpy(((struct work *)message)->bytes + at, bytes, length);
}

int wisp_ucx_send(void *message, uint32_t peer) { return ask(message, peer); }

int wisp_ucx_receive(uint32_t id, uint32_t low, uint32_t high, int length) {
  return ask(new_work(RECEIVE, id, tag_of(low, high), length), 0);
}

int wisp_ucx_close(uint32_t peer) { return ask(new_work(CLOSE, 0, 0, 0), peer); }

/* Nothing of this tag is received any more. */
int wisp_ucx_forget(uint32_t low, uint32_t high) {
  return ask(new_work(FORGET, 0, tag_of(low, high), 0), 0);
}

/*
 * Looks at the oldest thing that is done: its kind, its number, its status and how many bytes it has
 * brought. Returns 0 where there is none.
 */
int wisp_ucx_look(int32_t *out) {
  pthread_mutex_lock(&ucx.lock);
  struct work *work = ucx.done.first;
  if (work != NULL) {
    out[0] = work->kind;
    out[1] = (int32_t)work->id;
    out[2] = work->status;
    out[3] = work->kind == RECEIVE ? (int32_t)work->length : 0;
  }
  pthread_mutex_unlock(&ucx.lock);
  return work != NULL;
}

/* Takes it away, with its bytes where they are wanted. */
void wisp_ucx_fetch(void *into, int length) {
  pthread_mutex_lock(&ucx.lock);
  struct work *work = take(&ucx.done);
  pthread_mutex_unlock(&ucx.lock);
  if (work == NULL) return;
  if (length > 0) memcpy(into, work->bytes, length);
  discard(work);
}

/* Ends that have different ones do not understand each other's addresses. */
const char *wisp_ucx_version(void) { return ucp_get_version_string(); }

/* What a status of UCX means. */
const char *wisp_ucx_text(int status) { return ucs_status_string((ucs_status_t)status); }

/* Ends the thread and UCX. The reader of the descriptor closes it. */
void wisp_ucx_end(void) {
  if (!ucx.open) return;
  pthread_mutex_lock(&ucx.lock);
  ucx.ending = 1;
  pthread_mutex_unlock(&ucx.lock);
  ring(ucx.wake_fds[1]);
  if (ucx.runs) pthread_join(ucx.thread, NULL);
  ucx.runs = 0;
  ucp_worker_destroy(ucx.worker);
  ucp_cleanup(ucx.context);
  for (struct work *work; (work = take(&ucx.asked)) != NULL;) discard(work);
  for (struct work *work; (work = take(&ucx.done)) != NULL;) discard(work);
  for (struct work *work; (work = take(&ucx.begun)) != NULL;) discard(work);
  close(ucx.told_fds[1]);
  close(ucx.wake_fds[0]);
  close(ucx.wake_fds[1]);
  ucx.open = 0;
}
