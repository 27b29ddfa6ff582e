/*
 * A Vulkan driver in front of lavapipe that calls its adapter a GPU, for machines that have none: all
 * else is lavapipe's. Each library made from this file is one GPU, at the bus NUMBER; several have the
 * same name. It writes a line with its number into the file WISP_SHOWN_GPUS when a device is made.
 *
 *   cc -DNUMBER=0 -O2 -shared -fPIC -fvisibility=hidden -o gpu_0.so shown_gpu.c -ldl -lpthread
 */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define OFFERED __attribute__((visibility("default"))) VKAPI_ATTR
#define NAME "Twin 9000"

typedef PFN_vkVoidFunction (*Lookup)(VkInstance, const char *);

static struct {
  Lookup instance, physical;
  VkResult (*negotiate)(uint32_t *);
  PFN_vkGetPhysicalDeviceProperties properties;
  PFN_vkGetPhysicalDeviceProperties2 properties2;
  PFN_vkEnumerateDeviceExtensionProperties extensions;
  PFN_vkCreateDevice create_device;
} behind;

static void load_driver(void) {
  void *driver = dlopen("libvulkan_lvp.so", RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL) {
    fprintf(stderr, "shown_gpu: %s\n", dlerror());
    abort();
  }
  behind.instance = (Lookup)dlsym(driver, "vk_icdGetInstanceProcAddr");
  behind.physical = (Lookup)dlsym(driver, "vk_icdGetPhysicalDeviceProcAddr");
  behind.negotiate = (VkResult(*)(uint32_t *))dlsym(driver, "vk_icdNegotiateLoaderICDInterfaceVersion");
}

static void need_driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_driver);
}

static void disguise(VkPhysicalDeviceProperties *told) {
  told->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  told->vendorID = 0x10de;
  told->deviceID = 0x1234;
  strcpy(told->deviceName, NAME);
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *told) {
  behind.properties(device, told);
  disguise(told);
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *told) {
  behind.properties2(device, told);
  disguise(&told->properties);
  for (VkBaseOutStructure *part = told->pNext; part != NULL; part = part->pNext) {
    if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT) {
      VkPhysicalDevicePCIBusInfoPropertiesEXT *bus = (void *)part;
      bus->pciDomain = bus->pciDevice = bus->pciFunction = 0;
      bus->pciBus = NUMBER + 1;
    } else if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES) {
      VkPhysicalDeviceDriverProperties *driver = (void *)part;
      driver->driverID = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
      strcpy(driver->driverName, NAME);
      strcpy(driver->driverInfo, "1.0");
    }
  }
}

/* Those of lavapipe and where the GPU is plugged in, which the layer asks for. */
static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
    VkExtensionProperties *told) {
  uint32_t room = *count;
  VkResult result = behind.extensions(device, layer, count, told);
  if (layer != NULL || result != VK_SUCCESS) return result;
  if (told != NULL) {
    if (*count == room) return VK_INCOMPLETE;
    strcpy(told[*count].extensionName, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    told[*count].specVersion = VK_EXT_PCI_BUS_INFO_SPEC_VERSION;
  }
  *count += 1;
  return VK_SUCCESS;
}

/* Nobody asks a device for the extension that is made up above. */
static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkDevice *device) {
  const char *path = getenv("WISP_SHOWN_GPUS");
  FILE *made = path ? fopen(path, "a") : NULL;
  if (made != NULL) {
    fprintf(made, "%d\n", NUMBER);
    fclose(made);
  }
  return behind.create_device(physical, info, allocator, device);
}

static PFN_vkVoidFunction ours_or(const char *name, PFN_vkVoidFunction theirs) {
  if (theirs == NULL) return NULL;
#define OWN(function, own, kept)                                                          \
  if (strcmp(name, function) == 0) {                                                      \
    behind.kept = (void *)theirs;                                                         \
    return (PFN_vkVoidFunction)own;                                                       \
  }
  OWN("vkGetPhysicalDeviceProperties", properties, properties)
  OWN("vkGetPhysicalDeviceProperties2", properties2, properties2)
  OWN("vkGetPhysicalDeviceProperties2KHR", properties2, properties2)
  OWN("vkEnumerateDeviceExtensionProperties", extensions, extensions)
  OWN("vkCreateDevice", create_device, create_device)
  return theirs;
}

OFFERED PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name) {
  need_driver();
  return ours_or(name, behind.instance(instance, name));
}

OFFERED PFN_vkVoidFunction VKAPI_CALL vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name) {
  need_driver();
  return ours_or(name, behind.physical(instance, name));
}

OFFERED VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
  need_driver();
  return behind.negotiate(version);
}
