// The driver's functions (libcuda.so.1) but for modules and launches (kernels.cpp) and graphs (graphs.cpp).
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>

#include "core.h"
#include "errors.h"
#include "generated.h"

using namespace standin;

// A function that needs no more than a device.
#define FACT(name, parameters, ...) \
    API name parameters {           \
        TRY(connected());           \
        __VA_ARGS__;                \
        return CUDA_SUCCESS;        \
    }
#define DEVICE(device) NEED((device) == 0, CUDA_ERROR_INVALID_DEVICE)

// Puts a value where the caller wants it.
template <class T>
static CUresult put(void* out, T value) {
    *static_cast<T*>(out) = value;
    return CUDA_SUCCESS;
}

// ---- Errors, versions and entry points ----

static CUresult found(const char** out, const char* text) {
    *out = text;
    return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API cuGetErrorName(CUresult code, const char** out) { return found(out, name_of(kDriverErrors, code)); }
API cuGetErrorString(CUresult code, const char** out) { return found(out, text_of(kDriverErrors, code)); }
API cuInit(unsigned) { return connected(); }

API cuDriverGetVersion(int* out) {
    *out = CUDA_VERSION;
    return CUDA_SUCCESS;
}

// Whether a table is the one that only NVIDIA's runtime asks for; NVRTC asks for others.
static bool is_asked_by_runtime(const char* id) { return !memcmp(id, "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a", 8); }

// NVIDIA's runtime asks for tables that prove the driver. They are not imitated.
API cuGetExportTable(const void** out, const CUuuid* id) {
    *out = nullptr;
    static std::atomic<bool> told{false};
    Dl_info info{};
    if (is_asked_by_runtime(id->bytes) && !connected() && !told.exchange(true))
        tell("STATIC", dladdr(__builtin_return_address(0), &info) ? info.dli_fname : "");
    return CUDA_ERROR_NOT_SUPPORTED;
}

// Finds the newest variant of a function that a version of CUDA knows.
static void* entry_of(const char* name, int version) {
    static Dl_info info;
    static void* own = dladdr(reinterpret_cast<void*>(&cuInit), &info)
                           ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                           : nullptr;
    const char* symbol = name;
    int newest = -1;
    for (const Entry& entry : kEntries)
        if (!strcmp(entry.name, name) && entry.version <= version && entry.version > newest)
            symbol = entry.symbol, newest = entry.version;
    return own ? dlsym(own, symbol) : nullptr;
}

API cuGetProcAddress_v2(const char* name, void** out, int version, cuuint64_t,
                        CUdriverProcAddressQueryResult* status) {
    VALID(name && out);
    *out = entry_of(name, version);
    if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
API cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}

extern "C" int standin_nothing() { return ready(); }

// ---- Devices: there is one ----

FACT(cuDeviceGet, (CUdevice * out, int ordinal), DEVICE(ordinal); *out = 0)
FACT(cuDeviceGetCount, (int* out), *out = 1)
FACT(cuDeviceGetName, (char* out, int length, CUdevice device), DEVICE(device);
     snprintf(out, length, "%s", facts().name.c_str()))
FACT(cuDeviceGetUuid, (CUuuid * out, CUdevice device), DEVICE(device);
     memcpy(out->bytes, "emulated device", 16))
FACT(cuDeviceTotalMem, (size_t* out, CUdevice device), DEVICE(device); *out = facts().memory)
FACT(cuDeviceGetAttribute, (int* out, CUdevice_attribute which, CUdevice device), DEVICE(device);
     *out = attribute(which))
FACT(cuDeviceComputeCapability, (int* major, int* minor, CUdevice device), DEVICE(device);
     *major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
     *minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR))
FACT(cuDeviceGetPCIBusId, (char* out, int length, CUdevice device), DEVICE(device);
     snprintf(out, length, "0000:00:00.0"))
FACT(cuDeviceGetByPCIBusId, (CUdevice * out, const char*), *out = 0)
FACT(cuDeviceCanAccessPeer, (int* out, CUdevice, CUdevice), *out = 0)
FACT(cuDeviceGetExecAffinitySupport, (int* out, CUexecAffinityType, CUdevice), *out = 0)
API cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; }

// ---- Contexts: each is a name for the one arena ----

namespace {

struct Context : Object {
    unsigned flags = 0;
    bool active = false;
};

template <class T>
T* made_once() {
    auto* object = new T;
    add_handle(object);
    return object;
}

Context* primary() {
    static Context* made = made_once<Context>();
    return made;
}

CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(static_cast<Object*>(context)); }

// The contexts that a thread has made current, the last one on top.
std::vector<CUcontext>& contexts() {
    static thread_local auto* stack = new std::vector<CUcontext>;
    return *stack;
}

void remove_top() {
    if (!contexts().empty()) contexts().pop_back();
}

size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};

}  // namespace

#define CONTEXT(handle)                  \
    auto* context = as<Context>(handle); \
    NEED(context, CUDA_ERROR_INVALID_CONTEXT)

FACT(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), DEVICE(device); primary()->active = true;
     *out = handle_of(primary()))
FACT(cuDevicePrimaryCtxRelease, (CUdevice device), DEVICE(device))
FACT(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags), DEVICE(device); primary()->flags = flags)
FACT(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned* flags, int* active), DEVICE(device);
     *flags = primary()->flags; *active = primary()->active)

// A context that a kernel broke is lost, and with it the device.
FACT(cuDevicePrimaryCtxReset, (CUdevice device), DEVICE(device); finish_all(); release_all();
     lose_broken_context())

#undef cuCtxCreate
API cuCtxCreate_v2(CUcontext* out, unsigned, CUdevice) {
    TRY(ready());
    TRY(give(out, new Context));
    contexts().push_back(*out);
    return CUDA_SUCCESS;
}

FN(cuCtxDestroy, (CUcontext handle), CONTEXT(handle); finish_all(); drop_handle(context);
   if (!contexts().empty() && contexts().back() == handle) remove_top())
FACT(cuCtxPushCurrent, (CUcontext handle), CONTEXT(handle); contexts().push_back(handle))
FACT(cuCtxPopCurrent, (CUcontext * out), NEED(!contexts().empty(), CUDA_ERROR_INVALID_CONTEXT);
     CUcontext top = contexts().back(); remove_top(); if (out) put(out, top))
FACT(cuCtxSetCurrent, (CUcontext handle), remove_top(); if (!handle) return CUDA_SUCCESS; CONTEXT(handle);
     contexts().push_back(handle))
FACT(cuCtxGetCurrent, (CUcontext * out), *out = contexts().empty() ? nullptr : contexts().back())
FACT(cuCtxGetDevice, (CUdevice * out), *out = 0)
FACT(cuCtxGetFlags, (unsigned* out), *out = primary()->flags)
FACT(cuCtxGetId, (CUcontext handle, unsigned long long* out), *out = reinterpret_cast<size_t>(handle))
FACT(cuCtxGetApiVersion, (CUcontext, unsigned* out), *out = 3020)
FN(cuCtxSynchronize, (), TRY(refuse_captures(true)); return finish_all())
FN(cuCtxSetLimit, (CUlimit which, size_t value), VALID(which < std::size(limits)); limits[which] = value)
FN(cuCtxGetLimit, (size_t* out, CUlimit which), VALID(which < std::size(limits)); *out = limits[which])
FN(cuCtxGetCacheConfig, (CUfunc_cache * out), *out = CU_FUNC_CACHE_PREFER_NONE)
FN(cuCtxGetStreamPriorityRange, (int* least, int* greatest), if (least) put(least, 0);
   if (greatest) put(greatest, -5))

// ---- Memory ----

static CUresult allocate_checked(void* out, size_t size, Kind kind, unsigned flags = 0) {
    TRY(ready());
    TRY(refuse_captures(false));
    VALID(out && size);
    return allocate(static_cast<CUdeviceptr*>(out), size, kind, flags);
}

API cuMemAlloc(CUdeviceptr* out, size_t size) { return allocate_checked(out, size, Kind::Device); }
API cuMemAllocHost(void** out, size_t size) { return allocate_checked(out, size, Kind::Pinned); }

API cuMemHostAlloc(void** out, size_t size, unsigned flags) {
    return allocate_checked(out, size, Kind::Pinned, flags);
}

API cuMemAllocManaged(CUdeviceptr* out, size_t size, unsigned flags) {
    return allocate_checked(out, size, Kind::Managed, flags);
}

API cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned) {
    *pitch = (width + 511) / 512 * 512;
    return allocate_checked(out, *pitch * height, Kind::Device);
}

// Freeing waits for the device: work that is still queued may use the memory.
static CUresult free_checked(CUdeviceptr address, bool pinned) {
    TRY(ready());
    TRY(refuse_captures(false));
    if (!address) return CUDA_SUCCESS;
    TRY(finish_all());
    Block block;
    VALID(find_block(address, &block) && block.start == address);
    VALID((block.kind == Kind::Pinned) == pinned && block.kind != Kind::Array && block.kind != Kind::Mapped);
    return release(address);
}

API cuMemFree(CUdeviceptr address) { return free_checked(address, false); }
API cuMemFreeHost(void* pointer) { return free_checked(reinterpret_cast<CUdeviceptr>(pointer), true); }

FN(cuMemHostRegister, (void* pages, size_t size, unsigned flags), TRY(refuse_captures(false));
   VALID(pages && size); return map_host(pages, size, flags))
FN(cuMemHostUnregister, (void* pages), TRY(finish_all()); return unmap_host(pages))
FN(cuMemGetInfo, (size_t* free, size_t* total), *total = facts().memory; *free = *total - used_memory())

#define HOST_BLOCK(pointer) \
    Block block;            \
    VALID(find_block(canonical(pointer), &block) && block.kind != Kind::Device)

FN(cuMemHostGetDevicePointer, (CUdeviceptr * out, void* pointer, unsigned), HOST_BLOCK(pointer);
   *out = canonical(pointer))
FN(cuMemHostGetFlags, (unsigned* out, void* pointer), HOST_BLOCK(pointer);
   *out = block.flags | CU_MEMHOSTALLOC_DEVICEMAP)

API cuMemGetAddressRange(CUdeviceptr* start, size_t* size, CUdeviceptr address) {
    TRY(ready());
    Block block;
    NEED(find_block(address, &block), CUDA_ERROR_NOT_FOUND);
    if (start) *start = block.start;
    if (size) *size = block.size;
    return CUDA_SUCCESS;
}

API cuPointerGetAttribute(void* out, CUpointer_attribute which, CUdeviceptr pointer) {
    TRY(ready());
    Block block;
    CUdeviceptr address = canonical(reinterpret_cast<void*>(pointer));
    bool known = find_block(address, &block), managed = known && block.kind == Kind::Managed;
    bool host = known && (block.kind == Kind::Pinned || block.kind == Kind::Mapped);
    if (which == CU_POINTER_ATTRIBUTE_IS_MANAGED) return put<bool>(out, managed);
    VALID(known || is_valid(address, 1));
    switch (which) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: return put(out, handle_of(primary()));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return put(out, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(out, address);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: VALID(host || managed); return put(out, pointer);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(out, block.start);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(out, block.size);
        case CU_POINTER_ATTRIBUTE_MAPPED: return put(out, true);
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(out, false);
        default: return put(out, 0);
    }
}

API cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** out, CUdeviceptr pointer) {
    TRY(ready());
    for (unsigned i = 0; i < count; i++)
        if (cuPointerGetAttribute(out[i], which[i], pointer)) put(out[i], 0);
    return CUDA_SUCCESS;
}

FN(cuMemRangeGetAttribute, (void* out, size_t room, CUmem_range_attribute, CUdeviceptr, size_t),
   memset(out, 0, room))

// ---- Memory that streams allocate: the address is known at once, freeing waits for its turn ----

API cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t size, CUmemoryPool, CUstream handle) {
    TRY(ready());
    VALID(out && size);
    STREAM(handle);
    TRY(allocate(out, size, Kind::Device));
    if (!stream->capture) return CUDA_SUCCESS;
    reserve_for_graph(*out);
    return submit(handle, Take{*out});
}

API cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream stream) {
    return cuMemAllocFromPoolAsync(out, size, nullptr, stream);
}

API cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    TRY(ready());
    Block block;
    VALID(!address || (find_block(address, &block) && block.start == address));
    return address ? submit(stream, Drop{address}) : CUDA_SUCCESS;
}

namespace {

struct Pool : Object {
    std::map<int, cuuint64_t> attributes{{1, 1}, {2, 1}, {3, 1}};  // the flags are set
};

Pool* default_pool() {
    static Pool* made = made_once<Pool>();
    return made;
}

bool is_flag(CUmemPool_attribute which) { return which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD; }

}  // namespace

#define POOL(handle)               \
    auto* pool = as<Pool>(handle); \
    HANDLE(pool)

FACT(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), DEVICE(device);
     *out = reinterpret_cast<CUmemoryPool>(static_cast<Object*>(default_pool())))
FN(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps*), give(out, new Pool))
FN(cuMemPoolDestroy, (CUmemoryPool handle), POOL(handle); drop_handle(pool))
FN(cuMemPoolGetAccess, (CUmemAccess_flags * out, CUmemoryPool, CUmemLocation*),
   *out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
FN(cuMemPoolSetAttribute, (CUmemoryPool handle, CUmemPool_attribute which, void* value), POOL(handle);
   pool->attributes[which] = is_flag(which) ? *static_cast<int*>(value) : *static_cast<cuuint64_t*>(value))
FN(cuMemPoolGetAttribute, (CUmemoryPool handle, CUmemPool_attribute which, void* out), POOL(handle);
   cuuint64_t value = which > CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? used_memory() : pool->attributes[which];
   return is_flag(which) ? put<int>(out, value) : put(out, value))
FN(cuDeviceGetGraphMemAttribute, (CUdevice, CUgraphMem_attribute, void* out), put<cuuint64_t>(out, 0))

// ---- Copies ----

namespace {

Copy linear(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from, size_t size) {
    Copy copy{};
    copy.WidthInBytes = size, copy.Height = 1, copy.Depth = 1;
    copy.srcMemoryType = from_type, copy.srcHost = reinterpret_cast<void*>(from), copy.srcDevice = from;
    copy.dstMemoryType = to_type, copy.dstHost = reinterpret_cast<void*>(to), copy.dstDevice = to;
    return copy;
}

Copy widened(const CUDA_MEMCPY2D& p) {
    Copy copy{};
    copy.srcXInBytes = p.srcXInBytes, copy.srcY = p.srcY, copy.srcMemoryType = p.srcMemoryType;
    copy.srcHost = p.srcHost, copy.srcDevice = p.srcDevice, copy.srcArray = p.srcArray,
    copy.srcPitch = p.srcPitch;
    copy.dstXInBytes = p.dstXInBytes, copy.dstY = p.dstY, copy.dstMemoryType = p.dstMemoryType;
    copy.dstHost = p.dstHost, copy.dstDevice = p.dstDevice, copy.dstArray = p.dstArray,
    copy.dstPitch = p.dstPitch;
    copy.WidthInBytes = p.WidthInBytes, copy.Height = p.Height, copy.Depth = 1;
    return copy;
}

// Copies that involve pageable memory of the host, and those without a stream, wait until they are done.
CUresult run(const Copy& given, CUstream handle, bool waits) {
    TRY(ready());
    Copy copy = with_pitches(given);
    VALID(is_valid_copy(copy));
    STREAM(handle);
    if (waits) TRY(refuse_capture(stream));
    return submit(handle, copy, waits ? !is_inside_device(copy) : !stream->capture && is_pageable(copy));
}

}  // namespace

// Each copy exists with and without a stream.
#define COPIES(name, name_async, copy, ...)                    \
    API name(__VA_ARGS__) { return run(copy, nullptr, true); } \
    API name_async(__VA_ARGS__, CUstream stream) { return run(copy, stream, false); }
#define LINEAR(to_type, from_type) linear(CU_MEMORYTYPE_##to_type, to, CU_MEMORYTYPE_##from_type, from, n)

COPIES(cuMemcpy, cuMemcpyAsync, LINEAR(UNIFIED, UNIFIED), CUdeviceptr to, CUdeviceptr from, size_t n)
COPIES(cuMemcpyDtoD, cuMemcpyDtoDAsync, LINEAR(DEVICE, DEVICE), CUdeviceptr to, CUdeviceptr from, size_t n)
COPIES(cuMemcpyPeer, cuMemcpyPeerAsync, LINEAR(DEVICE, DEVICE), CUdeviceptr to, CUcontext, CUdeviceptr from,
       CUcontext, size_t n)
COPIES(cuMemcpy2D, cuMemcpy2DAsync, widened(*p), const CUDA_MEMCPY2D* p)
COPIES(cuMemcpy3D, cuMemcpy3DAsync, *p, const CUDA_MEMCPY3D* p)

static CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

COPIES(cuMemcpyHtoD, cuMemcpyHtoDAsync,
       linear(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_HOST, address(from), n), CUdeviceptr to,
       const void* from, size_t n)
COPIES(cuMemcpyDtoH, cuMemcpyDtoHAsync,
       linear(CU_MEMORYTYPE_HOST, address(to), CU_MEMORYTYPE_DEVICE, from, n), void* to, CUdeviceptr from,
       size_t n)

// A fill of device memory does not wait; one of the host's memory does.
static CUresult fill(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                     size_t height, CUstream stream, bool waits) {
    TRY(ready());
    Fill fill{to, pitch, value, element, width, height};
    VALID(is_valid_fill(fill));
    Block block;
    return submit(stream, fill, waits && find_block(to, &block) && block.kind != Kind::Device);
}

#define FILL(name, bits, pitch, height, ...) \
    API name(__VA_ARGS__) { return fill(to, pitch, v, bits / 8, w, height, nullptr, true); }
#define FILL_ASYNC(name, bits, pitch, height, ...) \
    API name(__VA_ARGS__, CUstream s) { return fill(to, pitch, v, bits / 8, w, height, s, false); }
#define FILLS(bits, type)                                                                                \
    FILL(cuMemsetD##bits, bits, 0, 1, CUdeviceptr to, type v, size_t w)                                  \
    FILL_ASYNC(cuMemsetD##bits##Async, bits, 0, 1, CUdeviceptr to, type v, size_t w)                     \
    FILL(cuMemsetD2D##bits, bits, pitch, h, CUdeviceptr to, size_t pitch, type v, size_t w, size_t h)    \
    FILL_ASYNC(cuMemsetD2D##bits##Async, bits, pitch, h, CUdeviceptr to, size_t pitch, type v, size_t w, \
               size_t h)

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

// ---- Arrays ----

namespace {

const std::map<CUarray_format, std::pair<const char*, size_t>> kFormats = {
    {CU_AD_FORMAT_UNSIGNED_INT8, {"unsigned", 8}},
    {CU_AD_FORMAT_SIGNED_INT8, {"signed", 8}},
    {CU_AD_FORMAT_UNSIGNED_INT16, {"unsigned", 16}},
    {CU_AD_FORMAT_SIGNED_INT16, {"signed", 16}},
    {CU_AD_FORMAT_UNSIGNED_INT32, {"unsigned", 32}},
    {CU_AD_FORMAT_SIGNED_INT32, {"signed", 32}},
    {CU_AD_FORMAT_HALF, {"float", 16}},
    {CU_AD_FORMAT_FLOAT, {"float", 32}}};

CUresult create_array(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    TRY(ready());
    VALID(out && shape.Width && shape.NumChannels && kFormats.count(shape.Format));
    auto array = std::make_unique<Array>();
    array->shape = shape;
    array->row = kFormats.at(shape.Format).second / 8 * shape.NumChannels * shape.Width;
    array->height = std::max<size_t>(shape.Height, 1);
    array->bytes = array->row * array->height * std::max<size_t>(shape.Depth, 1);
    TRY(allocate(&array->address, array->bytes, Kind::Array));
    return give(out, array.release());
}

}  // namespace

API cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) { return create_array(out, *shape); }

API cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
    return create_array(out, {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0});
}

#define ARRAY(handle)                \
    auto* array = as<Array>(handle); \
    HANDLE(array)

FN(cuArrayDestroy, (CUarray handle), if (!handle) return CUDA_SUCCESS; ARRAY(handle); TRY(finish_all());
   drop_handle(array); release(array->address))
FN(cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray handle), ARRAY(handle);
   *out = array->shape)
FN(cuArrayGetDescriptor, (CUDA_ARRAY_DESCRIPTOR * out, CUarray handle), ARRAY(handle);
   *out = {array->shape.Width, array->shape.Height, array->shape.Format, array->shape.NumChannels})

// ---- Textures ----

namespace {

// Where the texels are, and of which format.
struct Texels {
    CUarray_format format;
    unsigned channels;
    CUdeviceptr address;
    size_t bytes, width, height = 0, depth = 0, layers = 0, pitch = 0;
    const char* layout = "linear";
};

CUresult read_resource(const CUDA_RESOURCE_DESC& desc, Texels* texels) {
    auto& [format, channels, address, bytes, width, height, depth, layers, pitch, layout] = *texels;
    if (desc.resType == CU_RESOURCE_TYPE_ARRAY) {
        ARRAY(desc.res.array.hArray);
        auto& shape = array->shape;
        NEED(!(shape.Flags & CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_NOT_SUPPORTED);
        format = shape.Format, channels = shape.NumChannels, address = array->address, bytes = array->bytes;
        width = shape.Width, height = shape.Height, pitch = array->row, layout = "array";
        (shape.Flags & CUDA_ARRAY3D_LAYERED ? layers : depth) = shape.Depth;
    } else if (desc.resType == CU_RESOURCE_TYPE_LINEAR) {
        auto& linear = desc.res.linear;
        VALID(linear.numChannels && kFormats.count(linear.format));
        format = linear.format, channels = linear.numChannels, address = linear.devPtr,
        bytes = linear.sizeInBytes;
        width = bytes / (kFormats.at(format).second / 8 * channels);
    } else if (desc.resType == CU_RESOURCE_TYPE_PITCH2D) {
        auto& plane = desc.res.pitch2D;
        format = plane.format, channels = plane.numChannels, address = plane.devPtr, layout = "pitch2d";
        width = plane.width, height = plane.height, pitch = plane.pitchInBytes, bytes = pitch * height;
    } else {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    address = canonical(reinterpret_cast<void*>(address));
    VALID(kFormats.count(format) && is_valid(address, bytes));
    return CUDA_SUCCESS;
}

std::string described(const Texels& t, const CUDA_TEXTURE_DESC& desc) {
    static const char* const modes[] = {"wrap", "clamp", "mirror", "border"};
    auto [kind, bits] = kFormats.at(t.format);
    std::ostringstream lines;
    lines << "address " << t.address << "\nbytes " << t.bytes << "\nwidth " << t.width << "\nheight "
          << t.height << "\ndepth " << t.depth << "\nlayers " << t.layers << "\npitch " << t.pitch
          << "\nlayout " << t.layout << "\nkind " << kind;
    for (unsigned i = 0; i < 4; i++) lines << '\n' << "xyzw"[i] << ' ' << (i < t.channels ? bits : 0);
    for (int i = 0; i < 3; i++) lines << "\naddress" << i << ' ' << modes[desc.addressMode[i] & 3];
    lines << "\nfilter " << (desc.filterMode == CU_TR_FILTER_MODE_POINT ? "point" : "linear")
          << "\nnormalized " << !!(desc.flags & CU_TRSF_NORMALIZED_COORDINATES) << "\nread "
          << (desc.flags & CU_TRSF_READ_AS_INTEGER ? "element" : "normalized") << '\n';
    return lines.str();
}

}  // namespace

API cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
                      const CUDA_RESOURCE_VIEW_DESC*) {
    TRY(ready());
    Texels texels;
    CUresult code = read_resource(*resource, &texels);
    if (code == CUDA_ERROR_NOT_SUPPORTED) standin_missing("cuTexObjectCreate");
    TRY(code);
    Reply reply = ask("TEXTURE", described(texels, *texture));
    *out = reply.number;
    return reply.code;
}

FN(cuTexObjectDestroy, (CUtexObject object), if (object) tell("UNTEXTURE " + std::to_string(object)))

// ---- Tensor maps: the emulator makes them, and reads them ----

API cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* start,
                           const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                           CUtensorMapFloatOOBfill fill) {
    TRY(ready());
    VALID(out && dims && box && steps && rank && rank <= 5 && (strides || rank == 1));
    std::ostringstream line;
    line << "TENSORMAP " << canonical(start);
    line << ' ' << type << ' ' << interleave << ' ' << swizzle << ' ' << promotion << ' ' << fill;
    for (unsigned i = 0; i < rank; i++)
        line << ' ' << dims[i] << ' ' << box[i] << ' ' << steps[i] << ' ' << (i ? strides[i - 1] : 0);
    Reply reply = ask(line.str());
    TRY(reply.code);
    reply.text.copy(reinterpret_cast<char*>(out), sizeof *out);
    return CUDA_SUCCESS;
}

FN(cuTensorMapReplaceAddress, (CUtensorMap * map, void* start), CUdeviceptr at = canonical(start);
   VALID(map && at % 16 == 0); memcpy(map, &at, sizeof at))

// ---- Streams ----

API cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
    TRY(ready());
    VALID(out && flags <= CU_STREAM_NON_BLOCKING);
    static std::atomic<int> number{0};
    auto* stream = new Stream;
    stream->number = ++number, stream->flags = flags, stream->priority = std::clamp(priority, -5, 0);
    return give(out, stream);
}

API cuStreamCreate(CUstream* out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

FN(cuStreamDestroy, (CUstream handle), STREAM(handle); HANDLE(as<Stream>(handle)); drop_handle(stream))
FN(cuStreamGetPriority, (CUstream handle, int* out), STREAM(handle); *out = stream->priority)
FN(cuStreamGetFlags, (CUstream handle, unsigned* out), STREAM(handle); *out = stream->flags)
FN(cuStreamGetId, (CUstream handle, unsigned long long* out), STREAM(handle); *out = stream->number)
FN(cuStreamGetCtx, (CUstream handle, CUcontext* out), STREAM(handle); *out = handle_of(primary()))
FN(cuStreamGetDevice, (CUstream handle, CUdevice* out), STREAM(handle); *out = 0)
FN(cuStreamGetAttribute, (CUstream handle, CUstreamAttrID, CUstreamAttrValue* out), STREAM(handle); *out = {})
FN(cuStreamSynchronize, (CUstream handle), STREAM(handle); TRY(refuse_capture(stream)); return finish(stream))
FN(cuStreamQuery, (CUstream handle), STREAM(handle); TRY(refuse_capture(stream));
   return is_finished(stream) ? finish(stream) : CUDA_ERROR_NOT_READY)

API cuStreamWaitEvent(CUstream handle, CUevent waited, unsigned) {
    TRY(ready());
    STREAM(handle);
    auto* event = as<Event>(waited);
    HANDLE(event);
    if (event->capture) return join_capture(stream, event);
    if (stream->capture || is_done(event->ticket)) return CUDA_SUCCESS;
    return submit(handle, Wait{event});
}

FN(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* data), VALID(function);
   return submit(stream, Call{function, data, nullptr, nullptr}))
FN(cuStreamAddCallback, (CUstream handle, CUstreamCallback callback, void* data, unsigned), VALID(callback);
   STREAM(handle); TRY(refuse_capture(stream)); return submit(handle, Call{nullptr, data, callback, handle}))

// ---- Events ----

#define EVENT(handle)                \
    auto* event = as<Event>(handle); \
    HANDLE(event)

API cuEventCreate(CUevent* out, unsigned flags) {
    TRY(ready());
    auto* event = new Event;
    event->flags = flags;
    return give(out, event);
}

FN(cuEventDestroy, (CUevent handle), EVENT(handle); drop_handle(event))
FN(cuEventRecord, (CUevent handle, CUstream stream), EVENT(handle); return submit(stream, Record{event}))
FN(cuEventQuery, (CUevent handle), EVENT(handle); NEED(!event->capture, CUDA_ERROR_CAPTURED_EVENT);
   NEED(is_done(event->ticket), CUDA_ERROR_NOT_READY))
FN(cuEventSynchronize, (CUevent handle), EVENT(handle); NEED(!event->capture, CUDA_ERROR_CAPTURED_EVENT);
   return finish(event->ticket))

API cuEventElapsedTime(float* out, CUevent first, CUevent last) {
    TRY(ready());
    auto *from = as<Event>(first), *to = as<Event>(last);
    HANDLE(from && to && from->recorded && to->recorded);
    HANDLE(!((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING));
    NEED(is_done(from->ticket) && is_done(to->ticket), CUDA_ERROR_NOT_READY);
    *out = std::max(to->time - from->time, 1e-3);
    return CUDA_SUCCESS;
}
