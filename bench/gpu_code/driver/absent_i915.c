/*
 * Preloaded into a process, shows Mesa's driver for Intel a GPU that is not there: a render node, what
 * sysfs tells of it, and as much of the kernel's driver i915 as it takes to make a device. Nothing that
 * is submitted runs; all of it has ended at once.
 *
 *   WISP_INTEL_GPU     PCI id, regions of memory of its own (0, 1), dual subslices, timestamps a second
 *   WISP_INTEL_FOLDER  where dev/dri/renderD128 and sys/dev/char/226:128 are, as capture.ts writes them
 *
 * The node that is opened is a file of memory, of which a buffer is a range: the driver maps a buffer by
 * mapping the node at an offset that the kernel names, here the buffer's place in the file.
 *
 *   cc -O2 -shared -fPIC -I/usr/include/libdrm -o absent_i915.so absent_i915.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Declares `next`: the function of this name that the process would have called. */
#define NEXT(name) \
  static __typeof__(&name) next; \
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define DRM_MAJOR 226
#define DRM_MINOR 128
#define GIB ((uint64_t)1 << 30)
#define MEMORY (64 * GIB)
#define FILE_SIZE ((off_t)4096 * (off_t)GIB)
#define BUFFER_ALIGNMENT ((uint64_t)2 << 20)
#define MOST_BUFFERS ((uint32_t)1 << 20)
#define UNITS_A_SUBSLICE 16

static struct {
  unsigned id;
  int own_memory, subslices, timestamps;
  const char *folder; /* NULL: nothing is shown */
} gpu;

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int node_file = -1;
static struct stat64 node_status;

__attribute__((constructor)) static void read_environment(void) {
  const char *shape = getenv("WISP_INTEL_GPU");
  if (shape && sscanf(shape, "%x %d %d %d", &gpu.id, &gpu.own_memory, &gpu.subslices, &gpu.timestamps) == 4)
    gpu.folder = getenv("WISP_INTEL_FOLDER");
}

/* ---- Files. Mesa and libdrm call the names for large files. */

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static int is_node_path(const char *path) { return gpu.folder && path && begins(path, "/dev/dri/renderD"); }

static const char *shown(const char *path, char place[PATH_MAX]) {
  if (!gpu.folder || !path || !(begins(path, "/dev/dri") || begins(path, "/sys/dev/char/226:"))) return path;
  snprintf(place, PATH_MAX, "%s%s", gpu.folder, path);
  return place;
}

static int status_of(int file, struct stat64 *status) {
  NEXT(fstat64);
  return next(file, status);
}

static int is_same_file(const struct stat64 *status) {
  return node_file >= 0 && status->st_ino == node_status.st_ino && status->st_dev == node_status.st_dev;
}

static int is_node(int file) {
  struct stat64 status;
  return node_file >= 0 && status_of(file, &status) == 0 && is_same_file(&status);
}

static void make_device(struct stat64 *status) {
  status->st_mode = S_IFCHR | 0666;
  status->st_rdev = makedev(DRM_MAJOR, DRM_MINOR);
}

static int open_node(void) {
  pthread_mutex_lock(&one_at_a_time);
  if (node_file < 0) {
    node_file = memfd_create("absent_i915", MFD_CLOEXEC);
    if (node_file < 0 || ftruncate(node_file, FILE_SIZE) != 0 || status_of(node_file, &node_status) != 0) abort();
  }
  pthread_mutex_unlock(&one_at_a_time);
  return fcntl(node_file, F_DUPFD_CLOEXEC, 3);
}

int open64(const char *path, int flags, ...) {
  NEXT(open64);
  mode_t mode = 0;
  if (flags & (O_CREAT | __O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  char place[PATH_MAX];
  return is_node_path(path) ? open_node() : next(shown(path, place), flags, mode);
}

FILE *fopen64(const char *path, const char *mode) {
  NEXT(fopen64);
  char place[PATH_MAX];
  return next(shown(path, place), mode);
}

int stat64(const char *path, struct stat64 *status) {
  NEXT(stat64);
  char place[PATH_MAX];
  int failed = next(shown(path, place), status);
  if (!failed && is_node_path(path)) make_device(status);
  return failed;
}

int fstat64(int file, struct stat64 *status) {
  int failed = status_of(file, status);
  if (!failed && is_same_file(status)) make_device(status);
  return failed;
}

int access(const char *path, int mode) {
  NEXT(access);
  char place[PATH_MAX];
  return next(shown(path, place), mode);
}

DIR *opendir(const char *path) {
  NEXT(opendir);
  char place[PATH_MAX];
  return next(shown(path, place));
}

ssize_t readlink(const char *path, char *target, size_t size) {
  NEXT(readlink);
  char place[PATH_MAX];
  return next(shown(path, place), target, size);
}

/* ---- Buffers, by handle from 1. Their places are never used again; pages of closed ones go back. */

typedef struct {
  uint64_t offset, size;
} Buffer;
static Buffer *buffers;
static uint32_t buffer_count;
static uint64_t used;

static uint32_t new_buffer(uint64_t size) {
  pthread_mutex_lock(&one_at_a_time);
  if (!buffers) buffers = calloc(MOST_BUFFERS, sizeof *buffers);
  if (!buffers || buffer_count + 1 == MOST_BUFFERS) abort();
  uint32_t handle = ++buffer_count;
  buffers[handle] = (Buffer){used, size};
  used += (size + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
  pthread_mutex_unlock(&one_at_a_time);
  return handle;
}

static void close_buffer(uint32_t handle) {
  if (handle == 0 || handle > buffer_count || buffers[handle].size == 0) return;
  int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(node_file, how, (off_t)buffers[handle].offset, (off_t)buffers[handle].size) != 0) return;
}

/* ---- What the kernel tells. */

static int fail(int error) {
  errno = error;
  return -1;
}

static int parameter(int name) {
  switch (name) {
  case I915_PARAM_CHIPSET_ID: return (int)gpu.id;
  case I915_PARAM_CS_TIMESTAMP_FREQUENCY: return gpu.timestamps;
  case I915_PARAM_SUBSLICE_TOTAL: return gpu.subslices;
  case I915_PARAM_EU_TOTAL: return gpu.subslices * UNITS_A_SUBSLICE;
  case I915_PARAM_MMAP_VERSION:
  case I915_PARAM_MMAP_GTT_VERSION: return 4;
  case I915_PARAM_HAS_ALIASING_PPGTT: return 3; /* full, 48 bits */
  case I915_PARAM_REVISION:
  case I915_PARAM_HAS_USERPTR_PROBE:
  case 58: return 0; /* 58: protected content */
  default: return 1; /* whether the kernel has something: it does */
  }
}

/* Each answer is written where there is room, and has its size either way. */

/* One slice, all of its subslices, all units of each. */
static size_t topology(void *to) {
  struct drm_i915_query_topology_info *told = to;
  int stride = (gpu.subslices + 7) / 8, unit_stride = UNITS_A_SUBSLICE / 8;
  if (told) {
    told->max_slices = 1;
    told->max_subslices = (__u16)gpu.subslices;
    told->max_eus_per_subslice = UNITS_A_SUBSLICE;
    told->subslice_offset = 1;
    told->subslice_stride = (__u16)stride;
    told->eu_offset = (__u16)(1 + stride);
    told->eu_stride = (__u16)unit_stride;
    told->data[0] = 1;
    for (int i = 0; i < gpu.subslices; i++) told->data[1 + i / 8] |= (__u8)(1 << i % 8);
    for (int i = 0; i < gpu.subslices * unit_stride; i++) told->data[1 + stride + i] = 0xff;
  }
  return sizeof *told + 1 + (size_t)(stride + gpu.subslices * unit_stride);
}

static size_t engines(void *to) {
  struct drm_i915_query_engine_info *told = to;
  if (told) {
    told->num_engines = 2;
    told->engines[0].engine.engine_class = I915_ENGINE_CLASS_RENDER;
    told->engines[1].engine.engine_class = I915_ENGINE_CLASS_COPY;
  }
  return sizeof *told + 2 * sizeof told->engines[0];
}

static size_t memories(void *to) {
  struct drm_i915_query_memory_regions *told = to;
  uint32_t count = 1 + (uint32_t)gpu.own_memory;
  if (told) {
    told->num_regions = count;
    for (uint32_t i = 0; i < count; i++) {
      struct drm_i915_memory_region_info *memory = &told->regions[i];
      memory->region.memory_class = i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE;
      memory->probed_size = memory->unallocated_size = MEMORY;
      if (i > 0) memory->probed_cpu_visible_size = memory->unallocated_cpu_visible_size = MEMORY;
    }
  }
  return sizeof *told + count * sizeof told->regions[0];
}

static void answer(struct drm_i915_query_item *item) {
  size_t (*tell)(void *) = NULL;
  if (item->query_id == DRM_I915_QUERY_TOPOLOGY_INFO || item->query_id == DRM_I915_QUERY_GEOMETRY_SUBSLICES)
    tell = topology;
  else if (item->query_id == DRM_I915_QUERY_ENGINE_INFO) tell = engines;
  else if (item->query_id == DRM_I915_QUERY_MEMORY_REGIONS) tell = memories;
  int needed = tell ? (int)tell(NULL) : -EINVAL;
  if (tell && item->length > 0) {
    void *to = (void *)(uintptr_t)item->data_ptr;
    if (item->length < needed) needed = -EINVAL;
    else {
      memset(to, 0, (size_t)needed);
      tell(to);
    }
  }
  item->length = needed;
}

static void put_text(char *to, __kernel_size_t *room, const char *text) {
  size_t length = strlen(text);
  if (to && *room > 0) memcpy(to, text, length < *room ? length : *room);
  *room = length;
}

static uint32_t new_id(void) {
  static uint32_t last;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* Requests that every driver of the kernel's graphics has; 1 where `result` is left as it was. */
static int common_request(unsigned number, void *argument, int *result) {
  *result = 0;
  switch (number) {
  case _IOC_NR(DRM_IOCTL_VERSION): {
    struct drm_version *version = argument;
    version->version_major = 1;
    version->version_minor = 6;
    version->version_patchlevel = 0;
    put_text(version->name, &version->name_len, "i915");
    put_text(version->date, &version->date_len, "20230929");
    put_text(version->desc, &version->desc_len, "Intel Graphics");
    return 0;
  }
  case _IOC_NR(DRM_IOCTL_GET_CAP): ((struct drm_get_cap *)argument)->value = 1; return 0;
  case _IOC_NR(DRM_IOCTL_GEM_CLOSE): close_buffer(((struct drm_gem_close *)argument)->handle); return 0;
  case _IOC_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
  case _IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
  case _IOC_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
  case _IOC_NR(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE): *result = fail(ENOSYS); return 0;
  case _IOC_NR(DRM_IOCTL_SYNCOBJ_CREATE): ((struct drm_syncobj_create *)argument)->handle = new_id(); return 0;
  case _IOC_NR(DRM_IOCTL_SYNCOBJ_WAIT): {
    /* The driver asks so whether the kernel knows waiting for what is not submitted yet. */
    struct drm_syncobj_wait *wait = argument;
    int asks = wait->timeout_nsec == 0 && (wait->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT) != 0;
    if (asks) *result = fail(ETIME);
    return 0;
  }
  case _IOC_NR(DRM_IOCTL_SYNCOBJ_QUERY): {
    struct drm_syncobj_timeline_array *timelines = argument;
    uint64_t *points = (uint64_t *)(uintptr_t)timelines->points;
    for (uint32_t i = 0; i < timelines->count_handles; i++) points[i] = (uint64_t)1 << 62;
    return 0;
  }
  default: return 1;
  }
}

static int i915_request(unsigned number, void *argument) {
  switch (number) {
  case DRM_I915_GETPARAM: {
    struct drm_i915_getparam *asked = argument;
    *asked->value = parameter(asked->param);
    return 0;
  }
  case DRM_I915_QUERY: {
    struct drm_i915_query *asked = argument;
    struct drm_i915_query_item *items = (void *)(uintptr_t)asked->items_ptr;
    for (uint32_t i = 0; i < asked->num_items; i++) answer(&items[i]);
    return 0;
  }
  case DRM_I915_GEM_CREATE: {
    struct drm_i915_gem_create *made = argument;
    made->handle = new_buffer(made->size);
    return 0;
  }
  case DRM_I915_GEM_CREATE_EXT: {
    struct drm_i915_gem_create_ext *made = argument;
    made->handle = new_buffer(made->size);
    return 0;
  }
  case DRM_I915_GEM_USERPTR: ((struct drm_i915_gem_userptr *)argument)->handle = new_buffer(0); return 0;
  case DRM_I915_GEM_MMAP_GTT: { /* and by offset: a longer struct that begins alike */
    struct drm_i915_gem_mmap_gtt *mapped = argument;
    mapped->offset = buffers[mapped->handle].offset;
    return 0;
  }
  case DRM_I915_GEM_GET_APERTURE: {
    struct drm_i915_gem_get_aperture *aperture = argument;
    aperture->aper_size = aperture->aper_available_size = MEMORY;
    return 0;
  }
  case DRM_I915_GEM_CONTEXT_CREATE: ((struct drm_i915_gem_context_create *)argument)->ctx_id = new_id(); return 0;
  case DRM_I915_GEM_CONTEXT_GETPARAM: {
    struct drm_i915_gem_context_param *asked = argument;
    asked->value = asked->param == I915_CONTEXT_PARAM_GTT_SIZE ? (uint64_t)1 << 48 : 1;
    return 0;
  }
  case DRM_I915_GEM_VM_CREATE: ((struct drm_i915_gem_vm_control *)argument)->vm_id = new_id(); return 0;
  case DRM_I915_GEM_BUSY: ((struct drm_i915_gem_busy *)argument)->busy = 0; return 0;
  case DRM_I915_GET_RESET_STATS: {
    struct drm_i915_reset_stats *told = argument;
    told->reset_count = told->batch_active = told->batch_pending = 0;
    return 0;
  }
  case DRM_I915_REG_READ:
  case DRM_I915_PERF_OPEN:
  case DRM_I915_PERF_ADD_CONFIG: return fail(ENODEV);
  default: return 0; /* submissions and settings */
  }
}

int ioctl(int file, unsigned long request, ...) {
  NEXT(ioctl);
  va_list rest;
  va_start(rest, request);
  void *argument = va_arg(rest, void *);
  va_end(rest);
  if (_IOC_TYPE(request) != DRM_IOCTL_BASE || !is_node(file)) return next(file, request, argument);
  unsigned number = _IOC_NR(request);
  int result = 0;
  return common_request(number, argument, &result) ? i915_request(number - DRM_COMMAND_BASE, argument) : result;
}
