/*
 * A Vulkan driver in front of another one, for a GPU that is not there. Pipelines are compiled by the
 * driver behind, whose compiler is the real one; memory is the host's; commands and submissions do
 * nothing and have ended when they are made. What the compiler tells of each compute pipeline, its
 * machine code included, is a line of JSON in the file WISP_GPU_CODE.
 *
 * WISP_GPU_DRIVER is the library of the driver behind: Mesa's for AMD, which knows families without a
 * device (RADV_FORCE_FAMILY), or the one for Intel over absent_i915.c.
 *
 *   cc -O2 -shared -fPIC -fvisibility=hidden -o absent_gpu.so absent_gpu.c -ldl -lpthread
 */
#define _GNU_SOURCE
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <vulkan/vulkan.h>

#define OFFERED __attribute__((visibility("default"))) VKAPI_ATTR
#define COUNT(list) (sizeof(list) / sizeof *(list))
/* More than the statistics, stages and texts of any pipeline. */
#define MOST_FIGURES 96
#define MOST_STAGES 4
#define MOST_TEXTS 24
/* As much memory as models of any size take: pages are given by the host as they are touched. */
#define HEAP ((VkDeviceSize)1 << 40)

typedef PFN_vkVoidFunction (*Lookup)(VkInstance, const char *);

static struct {
  Lookup instance, physical;
  VkResult (*negotiate)(uint32_t *);
  PFN_vkGetDeviceProcAddr device;
  PFN_vkCreateInstance create_instance;
  PFN_vkCreateComputePipelines create_pipelines;
  PFN_vkGetBufferMemoryRequirements requirements;
  PFN_vkGetBufferMemoryRequirements2 requirements2;
  PFN_vkGetPipelineExecutablePropertiesKHR stages;
  PFN_vkGetPipelineExecutableStatisticsKHR figures;
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR texts;
} behind;

static VkInstance the_instance;
static FILE *code;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void load_driver(void) {
  const char *library = getenv("WISP_GPU_DRIVER"), *path = getenv("WISP_GPU_CODE");
  void *driver = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!driver) {
    fprintf(stderr, "absent_gpu: WISP_GPU_DRIVER: %s\n", library ? dlerror() : "not set");
    abort();
  }
  behind.instance = (Lookup)dlsym(driver, "vk_icdGetInstanceProcAddr");
  behind.physical = (Lookup)dlsym(driver, "vk_icdGetPhysicalDeviceProcAddr");
  behind.negotiate = (VkResult(*)(uint32_t *))dlsym(driver, "vk_icdNegotiateLoaderICDInterfaceVersion");
  if (path) code = fopen(path, "a");
}

static void need_driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_driver);
}

/* ---- What does nothing. Arguments are the caller's to take back, so that one function does for all. */

static VKAPI_ATTR VkResult VKAPI_CALL ends_well(void) { return VK_SUCCESS; }
static VKAPI_ATTR void VKAPI_CALL does_nothing(void) {}

static VKAPI_ATTR VkResult VKAPI_CALL gives_handle(VkDevice device, const void *info,
    const VkAllocationCallbacks *allocator, uint64_t *handle) {
  static uint64_t last = 4096;
  *handle = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  return VK_SUCCESS;
}

/* A timeline that is always far ahead of whoever waits for it. */
static VKAPI_ATTR VkResult VKAPI_CALL tells_end(VkDevice device, VkSemaphore semaphore, uint64_t *value) {
  *value = (uint64_t)1 << 62;
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL gives_zeros(VkDevice device, VkQueryPool pool, uint32_t first,
    uint32_t count, size_t size, void *data, VkDeviceSize stride, VkQueryResultFlags flags) {
  memset(data, 0, size);
  return VK_SUCCESS;
}

/* ---- Memory: of the host, from when it is first mapped. */

typedef struct {
  VkDeviceSize size;
  void *address;
} Memory;

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
    const VkAllocationCallbacks *allocator, VkDeviceMemory *handle) {
  Memory *memory = calloc(1, sizeof *memory);
  if (!memory) return VK_ERROR_OUT_OF_HOST_MEMORY;
  memory->size = info->allocationSize;
  *handle = (VkDeviceMemory)(uintptr_t)memory;
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory handle, VkDeviceSize offset,
    VkDeviceSize size, VkMemoryMapFlags flags, void **address) {
  Memory *memory = (Memory *)(uintptr_t)handle;
  if (!memory->address) {
    void *pages = mmap(NULL, memory->size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return VK_ERROR_MEMORY_MAP_FAILED;
    memory->address = pages;
  }
  *address = (char *)memory->address + offset;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL release(VkDevice device, VkDeviceMemory handle, const VkAllocationCallbacks *allocator) {
  Memory *memory = (Memory *)(uintptr_t)handle;
  if (memory && memory->address) munmap(memory->address, memory->size);
  free(memory);
}

static void describe_memory(VkPhysicalDeviceMemoryProperties *memory) {
  static const VkMemoryPropertyFlags types[] = {
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
          VK_MEMORY_PROPERTY_HOST_CACHED_BIT};
  memset(memory, 0, sizeof *memory);
  memory->memoryHeapCount = 2;
  for (uint32_t heap = 0; heap < 2; heap++) memory->memoryHeaps[heap].size = HEAP;
  memory->memoryHeaps[0].flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
  memory->memoryTypeCount = COUNT(types);
  for (uint32_t type = 0; type < COUNT(types); type++) {
    memory->memoryTypes[type].propertyFlags = types[type];
    memory->memoryTypes[type].heapIndex = type > 0;
  }
}

static VKAPI_ATTR void VKAPI_CALL memory_of(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *memory) {
  describe_memory(memory);
}
static VKAPI_ATTR void VKAPI_CALL memory_of2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *memory) {
  describe_memory(&memory->memoryProperties);
}

/* Every buffer may lie in each of the three types. */
static VKAPI_ATTR void VKAPI_CALL room_of(VkDevice device, VkBuffer buffer, VkMemoryRequirements *room) {
  behind.requirements(device, buffer, room);
  room->memoryTypeBits = 7;
}
static VKAPI_ATTR void VKAPI_CALL room_of2(VkDevice device, const VkBufferMemoryRequirementsInfo2 *info,
    VkMemoryRequirements2 *room) {
  behind.requirements2(device, info, room);
  room->memoryRequirements.memoryTypeBits = 7;
}

/* ---- Names. Dawn names modules, once their labels are asked for; label_modules.mjs gives them their pipelines'. */

typedef struct Name {
  uint64_t module;
  char *text;
  struct Name *next;
} Name;
static Name *names;

static VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info) {
  static const char mark[] = "Dawn_ShaderModule_";
  if (info->objectType != VK_OBJECT_TYPE_SHADER_MODULE || !info->pObjectName) return VK_SUCCESS;
  const char *marked = strstr(info->pObjectName, mark);
  Name *name = malloc(sizeof *name);
  if (!name) return VK_ERROR_OUT_OF_HOST_MEMORY;
  name->module = info->objectHandle;
  name->text = strdup(marked ? marked + sizeof mark - 1 : info->pObjectName);
  pthread_mutex_lock(&one_at_a_time);
  name->next = names;
  names = name;
  pthread_mutex_unlock(&one_at_a_time);
  return VK_SUCCESS;
}

static const char *name_of(VkShaderModule module) {
  const Name *name = names;
  while (name && name->module != (uint64_t)module) name = name->next;
  return name ? name->text : "";
}

/* ---- What the compiler tells. */

static void write_text(const char *text, size_t most) {
  fputc('"', code);
  for (size_t i = 0; i < most && text[i]; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < 0x20 || c == '"' || c == '\\') fprintf(code, "\\u%04x", c);
    else fputc(c, code);
  }
  fputc('"', code);
}

static void write_figure(const VkPipelineExecutableStatisticKHR *figure) {
  fputc(',', code);
  write_text(figure->name, sizeof figure->name);
  if (figure->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR)
    fprintf(code, ":%.9g", figure->value.f64);
  else if (figure->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR)
    fprintf(code, ":%lld", (long long)figure->value.i64);
  else fprintf(code, ":%llu", (unsigned long long)figure->value.u64);
}

/* The subgroup size that a stage is made for, 0 where the driver may choose. */
static uint32_t asked_width(const VkPipelineShaderStageCreateInfo *stage) {
  const VkBaseInStructure *part = stage->pNext;
  while (part && part->sType != VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO)
    part = part->pNext;
  return part ? ((const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *)part)->requiredSubgroupSize : 0;
}

/* Of the texts of a stage its machine code: that of AMD's compiler is "Assembly", of Intel's "GEN Assembly". */
static void write_machine_code(VkDevice device, const VkPipelineExecutableInfoKHR *stage) {
  VkPipelineExecutableInternalRepresentationKHR texts[MOST_TEXTS] = {0};
  uint32_t count = MOST_TEXTS;
  for (uint32_t i = 0; i < MOST_TEXTS; i++)
    texts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
  behind.texts(device, stage, &count, texts);
  for (uint32_t i = 0; i < count; i++) texts[i].pData = malloc(texts[i].dataSize + 1);
  behind.texts(device, stage, &count, texts);
  for (uint32_t i = 0; i < count; i++) {
    if (texts[i].pData && strstr(texts[i].name, "Assembly")) {
      fputs(",\"isa\":", code);
      write_text(texts[i].pData, texts[i].dataSize);
    }
    free(texts[i].pData);
  }
}

static void write_pipeline(VkDevice device, VkPipeline pipeline, const VkPipelineShaderStageCreateInfo *made_of) {
  VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
  VkPipelineExecutablePropertiesKHR stages[MOST_STAGES] = {0};
  uint32_t count = MOST_STAGES;
  for (uint32_t i = 0; i < MOST_STAGES; i++) stages[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
  behind.stages(device, &info, &count, stages);
  for (uint32_t i = 0; i < count; i++) {
    if (!(stages[i].stages & VK_SHADER_STAGE_COMPUTE_BIT)) continue;
    VkPipelineExecutableInfoKHR stage = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = i};
    VkPipelineExecutableStatisticKHR figures[MOST_FIGURES] = {0};
    uint32_t figure_count = MOST_FIGURES;
    for (uint32_t k = 0; k < MOST_FIGURES; k++) figures[k].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    behind.figures(device, &stage, &figure_count, figures);
    fputs("{\"label\":", code);
    write_text(name_of(made_of->module), SIZE_MAX);
    fprintf(code, ",\"wave\":%u,\"required\":%u", stages[i].subgroupSize, asked_width(made_of));
    for (uint32_t k = 0; k < figure_count; k++) write_figure(&figures[k]);
    write_machine_code(device, &stage);
    fputs("}\n", code);
  }
  fflush(code);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
    const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *allocator, VkPipeline *pipelines) {
  VkComputePipelineCreateInfo *told = malloc(count * sizeof *told);
  if (!told) return VK_ERROR_OUT_OF_HOST_MEMORY;
  memcpy(told, infos, count * sizeof *told);
  for (uint32_t i = 0; i < count; i++)
    told[i].flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                     VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  /* What a cache holds has no statistics. */
  VkResult result = behind.create_pipelines(device, VK_NULL_HANDLE, count, told, allocator, pipelines);
  pthread_mutex_lock(&one_at_a_time);
  for (uint32_t i = 0; code && i < count; i++)
    if (pipelines[i]) write_pipeline(device, pipelines[i], &told[i].stage);
  pthread_mutex_unlock(&one_at_a_time);
  free(told);
  return result;
}

/* ---- Which function is whose. */

static const struct {
  const char *name;
  PFN_vkVoidFunction own;
} own_functions[] = {
#define OWN(name, function) {name, (PFN_vkVoidFunction)function}
    OWN("vkBeginCommandBuffer", ends_well), OWN("vkEndCommandBuffer", ends_well),
    OWN("vkResetCommandBuffer", ends_well), OWN("vkResetCommandPool", ends_well),
    OWN("vkQueueSubmit", ends_well), OWN("vkQueueSubmit2", ends_well), OWN("vkQueueSubmit2KHR", ends_well),
    OWN("vkQueueBindSparse", ends_well), OWN("vkQueueWaitIdle", ends_well), OWN("vkDeviceWaitIdle", ends_well),
    OWN("vkWaitForFences", ends_well), OWN("vkGetFenceStatus", ends_well), OWN("vkResetFences", ends_well),
    OWN("vkWaitSemaphores", ends_well), OWN("vkWaitSemaphoresKHR", ends_well), OWN("vkSignalSemaphore", ends_well),
    OWN("vkFlushMappedMemoryRanges", ends_well), OWN("vkInvalidateMappedMemoryRanges", ends_well),
    OWN("vkBindBufferMemory", ends_well), OWN("vkBindBufferMemory2", ends_well),
    OWN("vkBindBufferMemory2KHR", ends_well), OWN("vkCreateFence", gives_handle),
    OWN("vkCreateSemaphore", gives_handle), OWN("vkCreateEvent", gives_handle),
    OWN("vkDestroyFence", does_nothing), OWN("vkDestroySemaphore", does_nothing),
    OWN("vkDestroyEvent", does_nothing), OWN("vkUnmapMemory", does_nothing),
    OWN("vkUpdateDescriptorSets", does_nothing), OWN("vkUpdateDescriptorSetWithTemplate", does_nothing),
    OWN("vkGetSemaphoreCounterValue", tells_end), OWN("vkGetSemaphoreCounterValueKHR", tells_end),
    OWN("vkGetQueryPoolResults", gives_zeros), OWN("vkAllocateMemory", allocate), OWN("vkFreeMemory", release),
    OWN("vkMapMemory", map), OWN("vkGetPhysicalDeviceMemoryProperties", memory_of),
    OWN("vkGetPhysicalDeviceMemoryProperties2", memory_of2),
    OWN("vkGetPhysicalDeviceMemoryProperties2KHR", memory_of2),
    OWN("vkGetBufferMemoryRequirements", room_of), OWN("vkGetBufferMemoryRequirements2", room_of2),
    OWN("vkGetBufferMemoryRequirements2KHR", room_of2), OWN("vkCreateComputePipelines", create_pipelines),
    OWN("vkSetDebugUtilsObjectNameEXT", set_name)};

/* Ours, where the driver behind has it too, whose own is kept for what ours calls. */
static PFN_vkVoidFunction ours_or(const char *name, PFN_vkVoidFunction theirs) {
  if (theirs && strcmp(name, "vkCreateComputePipelines") == 0) {
    behind.create_pipelines = (PFN_vkCreateComputePipelines)theirs;
    behind.stages = (void *)behind.instance(the_instance, "vkGetPipelineExecutablePropertiesKHR");
    behind.figures = (void *)behind.instance(the_instance, "vkGetPipelineExecutableStatisticsKHR");
    behind.texts = (void *)behind.instance(the_instance, "vkGetPipelineExecutableInternalRepresentationsKHR");
  }
  if (theirs && strcmp(name, "vkGetBufferMemoryRequirements") == 0) behind.requirements = (void *)theirs;
  if (theirs && strncmp(name, "vkGetBufferMemoryRequirements2", 30) == 0) behind.requirements2 = (void *)theirs;
  int is_name = strcmp(name, "vkSetDebugUtilsObjectNameEXT") == 0;
  if (!theirs && !is_name) return NULL;
  if (strncmp(name, "vkCmd", 5) == 0) return (PFN_vkVoidFunction)does_nothing;
  for (size_t i = 0; i < COUNT(own_functions); i++)
    if (strcmp(name, own_functions[i].name) == 0) return own_functions[i].own;
  return theirs;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)of_device;
  return ours_or(name, behind.device(device, name));
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkInstance *instance) {
  VkResult result = behind.create_instance(info, allocator, instance);
  if (result == VK_SUCCESS) the_instance = *instance;
  return result;
}

OFFERED PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name) {
  need_driver();
  if (strcmp(name, "vk_icdGetPhysicalDeviceProcAddr") == 0) return NULL;
  PFN_vkVoidFunction theirs = behind.instance(instance, name);
  if (strcmp(name, "vkCreateInstance") == 0) {
    behind.create_instance = (PFN_vkCreateInstance)theirs;
    return (PFN_vkVoidFunction)create_instance;
  }
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
    behind.device = (PFN_vkGetDeviceProcAddr)theirs;
    return (PFN_vkVoidFunction)of_device;
  }
  return theirs ? ours_or(name, theirs) : NULL;
}

OFFERED PFN_vkVoidFunction VKAPI_CALL vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name) {
  need_driver();
  PFN_vkVoidFunction theirs = behind.physical ? behind.physical(instance, name) : NULL;
  return theirs ? ours_or(name, theirs) : NULL;
}

OFFERED VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
  need_driver();
  return behind.negotiate(version);
}
