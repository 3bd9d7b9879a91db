// The runtime's functions (libcudart.so): a thin layer that calls the driver's. Functions that hand their
// parameters on unchanged are generated (workbench/programs/standin/library.py).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "errors.h"
#include "generated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define API EXPORT cudaError_t
#define TRY(call) \
    if (int bad = (call)) return ended(bad)

// A function that calls the driver; the thread's context is there by then.
#define FN(name, parameters, ...) \
    API name parameters {         \
        TRY(standin_begin());     \
        __VA_ARGS__;              \
        return cudaSuccess;       \
    }

extern "C" int standin_missing(const char* name);

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

thread_local cudaError_t last_error = cudaSuccess;

// The runtime's codes equal the driver's, but for a few that the callers here name themselves.
cudaError_t ended(int code) {
    if (code) last_error = static_cast<cudaError_t>(code);
    return static_cast<cudaError_t>(code);
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUdeviceptr* address(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }
CUarray array(cudaArray_const_t handle) { return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(handle)); }

}  // namespace

// For generated functions: the context of the device becomes the thread's with its first call.
extern "C" int standin_begin() {
    static thread_local bool begun = false;
    if (begun) return CUDA_SUCCESS;
    CUcontext context = nullptr;
    CUresult code = cuInit(0);
    if (!code) code = cuCtxGetCurrent(&context);
    if (!code && !context) code = cuDevicePrimaryCtxRetain(&context, 0);
    if (!code) code = cuCtxSetCurrent(context);
    begun = !code;
    return code;
}

extern "C" int standin_ended(int code) { return ended(code); }

extern "C" int standin_missing_runtime(const char* name) {
    int code = standin_begin();
    return ended(code ? code : standin_missing(name));
}

// ---- What the program registers before main: images, kernels and variables, loaded at first use ----

namespace {

struct Image {
    const void* wrapper = nullptr;
    CUmodule module = nullptr;
    int code = 0;
    bool loaded = false;
    std::map<void**, std::string> managed;
};

struct Symbol {
    Image* image = nullptr;
    std::string name;
    CUfunction function = nullptr;  // of a kernel that was looked for
};

struct Program {
    std::recursive_mutex mutex;
    std::set<Image*> images;
    std::map<const void*, Symbol> kernels, variables;
    std::map<CUfunction, const void*> stubs;
};

Program& program() {
    static auto* made = new Program;
    return *made;
}

int load(Image* image) {
    if (image->loaded) return image->code;
    if (int code = standin_begin()) return code;
    image->code = cuModuleLoadData(&image->module, image->wrapper);
    image->loaded = true;
    for (auto& [host, name] : image->managed) {
        CUdeviceptr start = 0;
        if (!image->code && !cuModuleGetGlobal(&start, nullptr, image->module, name.c_str()))
            *host = reinterpret_cast<void*>(start);
    }
    return image->code;
}

// The driver's function of a kernel: of its host stub, or of a handle that the driver gave.
int find(CUfunction* out, const void* stub) {
    Lock lock(program().mutex);
    auto found = program().kernels.find(stub);
    if (found == program().kernels.end()) {
        const char* name;
        *out = static_cast<CUfunction>(const_cast<void*>(stub));
        return cuFuncGetName(&name, *out);
    }
    Symbol& kernel = found->second;
    if (!kernel.function) {
        if (int code = load(kernel.image)) return code;
        int code = cuModuleGetFunction(&kernel.function, kernel.image->module, kernel.name.c_str());
        if (code) return code == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : code;
        program().stubs[kernel.function] = stub;
    }
    *out = kernel.function;
    return cudaSuccess;
}

int find_symbol(CUdeviceptr* start, size_t* size, const void* symbol) {
    Lock lock(program().mutex);
    auto found = program().variables.find(symbol);
    if (found == program().variables.end()) return cudaErrorInvalidSymbol;
    if (int code = load(found->second.image)) return code;
    int code = cuModuleGetGlobal(start, size, found->second.image->module, found->second.name.c_str());
    return code == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : code;
}

}  // namespace

#define FIND(stub)                 \
    CUfunction function = nullptr; \
    TRY(find(&function, stub))

EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
    Lock lock(program().mutex);
    auto* image = new Image;
    image->wrapper = wrapper;
    program().images.insert(image);
    return reinterpret_cast<void**>(image);
}

EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

EXPORT void __cudaUnregisterFatBinary(void** handle) {
    Lock lock(program().mutex);
    program().images.erase(reinterpret_cast<Image*>(handle));
}

EXPORT void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*,
                                   uint3*, dim3*, dim3*, int*) {
    Lock lock(program().mutex);
    program().kernels[stub] = {reinterpret_cast<Image*>(handle), name};
}

EXPORT void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
    Lock lock(program().mutex);
    program().variables[host] = {reinterpret_cast<Image*>(handle), name};
}

// The pointer gets its value when the module is loaded, before the host's first access to the variable.
EXPORT void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t, int,
                                     int) {
    Lock lock(program().mutex);
    auto* image = reinterpret_cast<Image*>(handle);
    program().variables[host] = {image, name};
    image->managed[host] = name;
}

EXPORT char __cudaInitModule(void** handle) {
    Lock lock(program().mutex);
    return !load(reinterpret_cast<Image*>(handle));
}

// ---- Launches ----

namespace {

struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

std::vector<Configuration>& configurations() {
    static thread_local auto* pushed = new std::vector<Configuration>;
    return *pushed;
}

CUlaunchConfig configured(const cudaLaunchConfig_t& given) {
    static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "the attributes are the same");
    const dim3 &g = given.gridDim, &b = given.blockDim;
    return {g.x,          g.y, g.z, b.x, b.y, b.z, static_cast<unsigned>(given.dynamicSmemBytes),
            given.stream, reinterpret_cast<CUlaunchAttribute*>(given.attrs), given.numAttrs};
}

}  // namespace

// Functions that name a kernel by its stub, and are the driver's otherwise.
#define OF_KERNEL(name, parameters, call) FN(name, parameters, FIND(stub); return ended(call))

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
    configurations().push_back({grid, block, shared, stream});
    return 0;
}

API __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    if (configurations().empty()) return ended(cudaErrorMissingConfiguration);
    Configuration top = configurations().back();
    configurations().pop_back();
    *grid = top.grid, *block = top.block, *shared = top.shared;
    *static_cast<cudaStream_t*>(stream) = top.stream;
    return cudaSuccess;
}

// A kernel whose module does not load keeps its stub as the handle: its launch returns the error.
API __cudaGetKernel(cudaKernel_t* out, const void* stub) {
    CUfunction function = nullptr;
    int code = find(&function, stub);
    *out = reinterpret_cast<cudaKernel_t>(code ? const_cast<void*>(stub) : static_cast<void*>(function));
    return static_cast<cudaError_t>(code);
}

OF_KERNEL(cudaLaunchKernel,
          (const void* stub, dim3 g, dim3 b, void** values, size_t shared, cudaStream_t stream),
          cuLaunchKernel(function, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, values, nullptr))
OF_KERNEL(cudaLaunchCooperativeKernel,
          (const void* stub, dim3 g, dim3 b, void** values, size_t shared, cudaStream_t stream),
          cuLaunchCooperativeKernel(function, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, values))
FN(cudaLaunchKernelExC, (const cudaLaunchConfig_t* given, const void* stub, void** values), FIND(stub);
   CUlaunchConfig config = configured(*given);
   return ended(cuLaunchKernelEx(&config, function, values, nullptr)))
FN(cudaGetKernel, (cudaKernel_t * out, const void* stub), FIND(stub);
   *out = reinterpret_cast<cudaKernel_t>(function))
FN(cudaGetFuncBySymbol, (cudaFunction_t * out, const void* stub), FIND(stub); *out = function)

// ---- Functions ----

API cudaFuncGetAttributes(cudaFuncAttributes* out, const void* stub) {
    TRY(standin_begin());
    FIND(stub);
    int values[CU_FUNC_ATTRIBUTE_MAX] = {};
    for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++)
        TRY(cuFuncGetAttribute(&values[i], static_cast<CUfunction_attribute>(i), function));
    *out = {};
    out->sharedSizeBytes = values[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
    out->constSizeBytes = values[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES];
    out->localSizeBytes = values[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
    out->maxThreadsPerBlock = values[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    out->numRegs = values[CU_FUNC_ATTRIBUTE_NUM_REGS];
    out->ptxVersion = values[CU_FUNC_ATTRIBUTE_PTX_VERSION];
    out->binaryVersion = values[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
    out->maxDynamicSharedSizeBytes = values[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    out->preferredShmemCarveout = values[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
    out->nonPortableClusterSizeAllowed = values[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
    return cudaSuccess;
}

OF_KERNEL(cudaFuncSetAttribute, (const void* stub, cudaFuncAttribute which, int value),
          cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(which), value))
OF_KERNEL(cudaFuncSetCacheConfig, (const void* stub, cudaFuncCache), 0)
OF_KERNEL(cudaFuncGetName, (const char** out, const void* stub), cuFuncGetName(out, function))
OF_KERNEL(cudaFuncGetParamInfo, (const void* stub, size_t index, size_t* offset, size_t* size),
          cuFuncGetParamInfo(function, index, offset, size))
OF_KERNEL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
          (int* out, const void* stub, int threads, size_t shared),
          cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, threads, shared))
OF_KERNEL(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t* out, const void* stub, int blocks, int threads),
          cuOccupancyAvailableDynamicSMemPerBlock(out, function, blocks, threads))
OF_KERNEL(cudaOccupancyMaxPotentialClusterSize, (int* out, const void* stub, const cudaLaunchConfig_t*),
          cuOccupancyMaxPotentialClusterSize(out, function, nullptr))
FN(cudaOccupancyMaxActiveClusters, (int* out, const void* stub, const cudaLaunchConfig_t* given), FIND(stub);
   CUlaunchConfig config = configured(*given);
   return ended(cuOccupancyMaxActiveClusters(out, function, &config)))

// ---- Errors ----

API cudaGetLastError() {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

API cudaPeekAtLastError() { return last_error; }

EXPORT const char* cudaGetErrorName(cudaError_t code) {
    const char* name = name_of(kRuntimeErrors, code);
    return name ? name : "unrecognized error code";
}

EXPORT const char* cudaGetErrorString(cudaError_t code) {
    const char* text = text_of(kRuntimeErrors, code);
    return text ? text : "unrecognized error code";
}

// ---- The device ----

FN(cudaGetDevice, (int* out), *out = 0)
FN(cudaChooseDevice, (int* out, const cudaDeviceProp*), *out = 0)
FN(cudaSetDevice, (int device), TRY(device ? cudaErrorInvalidDevice : cudaSuccess))
FN(cudaInitDevice, (int device, unsigned, unsigned), TRY(device ? cudaErrorInvalidDevice : cudaSuccess))
FN(cudaSetValidDevices, (int*, int), )
FN(cudaSetDeviceFlags, (unsigned flags), cuDevicePrimaryCtxSetFlags(0, flags))
FN(cudaGetDeviceFlags, (unsigned* out), int active; cuDevicePrimaryCtxGetState(0, out, &active))
FN(cudaDeviceEnablePeerAccess, (int peer, unsigned),
   return ended(peer ? cudaErrorInvalidDevice : cudaErrorPeerAccessUnsupported))

API cudaRuntimeGetVersion(int* out) {
    *out = CUDART_VERSION;
    return cudaSuccess;
}

// Modules are loaded again at their next use.
API cudaDeviceReset() {
    TRY(standin_begin());
    TRY(cuDevicePrimaryCtxReset(0));
    Lock lock(program().mutex);
    for (Image* image : program().images) image->loaded = false;
    for (auto& [stub, kernel] : program().kernels) kernel.function = nullptr;
    return cudaSuccess;
}

static int fact(int which) {
    int value = 0;
    cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(which), 0);
    return value;
}

#undef cudaGetDeviceProperties
API cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
    TRY(standin_begin());
    TRY(device ? cudaErrorInvalidDevice : cudaSuccess);
    *out = {};
    cuDeviceGetName(out->name, sizeof out->name, 0);
    cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&out->uuid), 0);
    cuDeviceTotalMem(&out->totalGlobalMem, 0);
    cudaDeviceProp& properties = *out;
    DEVICE_PROPERTIES  // generated: each property that is an attribute
        return cudaSuccess;
}

// ---- Memory: zero bytes are no error, and get no memory ----

#define ALLOCATION(name, parameters, call) \
    FN(name, parameters, if (!out) return ended(cudaErrorInvalidValue); *out = nullptr; if (size) TRY(call))

ALLOCATION(cudaMalloc, (void** out, size_t size), cuMemAlloc(address(out), size))
ALLOCATION(cudaMallocHost, (void** out, size_t size), cuMemHostAlloc(out, size, 0))
ALLOCATION(cudaHostAlloc, (void** out, size_t size, unsigned flags), cuMemHostAlloc(out, size, flags))
ALLOCATION(cudaMallocManaged, (void** out, size_t size, unsigned flags),
           cuMemAllocManaged(address(out), size, flags))

FN(cudaMallocPitch, (void** out, size_t* pitch, size_t width, size_t height),
   return ended(cuMemAllocPitch(address(out), pitch, width, height, 4)))
FN(cudaMalloc3D, (cudaPitchedPtr * out, cudaExtent extent),
   TRY(cuMemAllocPitch(address(&out->ptr), &out->pitch, extent.width, extent.height* extent.depth, 4));
   out->xsize = extent.width; out->ysize = extent.height)

API cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
    TRY(standin_begin());
    CUmemorytype type;
    bool managed = false;
    *out = {};
    out->type = cudaMemoryTypeUnregistered, out->device = -2, out->hostPointer = const_cast<void*>(pointer);
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer))) return cudaSuccess;
    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(pointer));
    cuPointerGetAttribute(&out->devicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address(pointer));
    out->type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    if (managed) out->type = cudaMemoryTypeManaged;
    if (out->type == cudaMemoryTypeDevice) out->hostPointer = nullptr;
    out->device = 0;
    return cudaSuccess;
}

// ---- Copies ----

namespace {

CUmemorytype type_of(cudaMemcpyKind kind, bool host) {
    if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
    return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

// One side of a copy: memory, or an array.
struct End {
    const void* pointer = nullptr;
    size_t pitch = 0, height = 0;
    cudaArray_const_t array = nullptr;
    size_t x = 0, y = 0, z = 0;
};

End part_of(cudaArray_const_t array, size_t x, size_t y) { return {nullptr, 0, 0, array, x, y, 0}; }

CUDA_MEMCPY3D copied(const End& to, const End& from, size_t width, size_t height, cudaMemcpyKind kind,
                     size_t depth = 1) {
    CUDA_MEMCPY3D copy{};
    bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
    bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
    copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
    copy.srcMemoryType = from.array ? CU_MEMORYTYPE_ARRAY : type_of(kind, from_host);
    copy.dstMemoryType = to.array ? CU_MEMORYTYPE_ARRAY : type_of(kind, to_host);
    copy.srcHost = from.pointer, copy.srcDevice = address(from.pointer), copy.srcArray = array(from.array);
    copy.dstHost = const_cast<void*>(to.pointer), copy.dstDevice = address(to.pointer);
    copy.dstArray = array(to.array);
    copy.srcPitch = from.pitch, copy.srcHeight = from.height, copy.dstPitch = to.pitch,
    copy.dstHeight = to.height;
    copy.srcXInBytes = from.x, copy.srcY = from.y, copy.srcZ = from.z;
    copy.dstXInBytes = to.x, copy.dstY = to.y, copy.dstZ = to.z;
    return copy;
}

struct Format {
    cudaChannelFormatKind kind;
    int bits;
    CUarray_format format;
};

const Format kFormats[] = {{cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
                           {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
                           {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
                           {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
                           {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
                           {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
                           {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
                           {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT}};

cudaChannelFormatDesc channels_of(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    int bits[4] = {};
    cudaChannelFormatKind kind = cudaChannelFormatKindNone;
    for (const Format& known : kFormats)
        for (unsigned i = 0; known.format == shape.Format && i < shape.NumChannels && i < 4; i++)
            bits[i] = known.bits, kind = known.kind;
    return {bits[0], bits[1], bits[2], bits[3], kind};
}

size_t texel_of(cudaArray_t handle) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (!handle || cuArray3DGetDescriptor(&shape, array(handle))) return 1;
    return channels_of(shape).x / 8 * shape.NumChannels;
}

// Positions and extents count elements where an array takes part, bytes elsewhere.
CUDA_MEMCPY3D from_3d(const cudaMemcpy3DParms& p) {
    size_t from = texel_of(p.srcArray), to = texel_of(p.dstArray);
    End source{p.srcPtr.ptr,      p.srcPtr.pitch, p.srcPtr.ysize, p.srcArray,
               p.srcPos.x * from, p.srcPos.y,     p.srcPos.z};
    End target{p.dstPtr.ptr,    p.dstPtr.pitch, p.dstPtr.ysize, p.dstArray,
               p.dstPos.x * to, p.dstPos.y,     p.dstPos.z};
    size_t width = p.extent.width * (p.srcArray ? from : to);
    return copied(target, source, width, p.extent.height, p.kind, p.extent.depth);
}

cudaError_t run(const CUDA_MEMCPY3D& copy, cudaMemcpyKind kind, const cudaStream_t* stream) {
    TRY(standin_begin());
    TRY(static_cast<unsigned>(kind) > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaSuccess);
    bool rows = copy.Height > 1 || copy.Depth > 1;
    bool narrow = (copy.srcPitch && copy.srcPitch < copy.WidthInBytes) ||
                  (copy.dstPitch && copy.dstPitch < copy.WidthInBytes);
    TRY(rows && narrow ? cudaErrorInvalidPitchValue : cudaSuccess);
    return ended(stream ? cuMemcpy3DAsync(&copy, *stream) : cuMemcpy3D(&copy));
}

cudaError_t copy_symbol(const void* symbol, size_t offset, size_t size, cudaMemcpyKind kind, const void* from,
                        void* to, const cudaStream_t* stream) {
    CUdeviceptr start = 0;
    size_t room = 0;
    TRY(find_symbol(&start, &room, symbol));
    TRY(offset > room || size > room - offset ? cudaErrorInvalidValue : cudaSuccess);
    void* inside = reinterpret_cast<void*>(start + offset);
    return run(copied({from ? inside : to}, {from ? from : inside}, size, 1, kind), kind, stream);
}

}  // namespace

#define COPIES(name, name_async, copy, ...)                                         \
    API name(__VA_ARGS__, cudaMemcpyKind kind) { return run(copy, kind, nullptr); } \
    API name_async(__VA_ARGS__, cudaMemcpyKind kind, cudaStream_t stream) { return run(copy, kind, &stream); }

COPIES(cudaMemcpy, cudaMemcpyAsync, copied({to}, {from}, n, 1, kind), void* to, const void* from, size_t n)
COPIES(cudaMemcpy2D, cudaMemcpy2DAsync, copied({to, tp}, {from, fp}, w, h, kind), void* to, size_t tp,
       const void* from, size_t fp, size_t w, size_t h)
COPIES(cudaMemcpy2DToArray, cudaMemcpy2DToArrayAsync, copied(part_of(to, x, y), {from, fp}, w, h, kind),
       cudaArray_t to, size_t x, size_t y, const void* from, size_t fp, size_t w, size_t h)
COPIES(cudaMemcpy2DFromArray, cudaMemcpy2DFromArrayAsync, copied({to, tp}, part_of(from, x, y), w, h, kind),
       void* to, size_t tp, cudaArray_const_t from, size_t x, size_t y, size_t w, size_t h)
COPIES(cudaMemcpyToArray, cudaMemcpyToArrayAsync, copied(part_of(to, x, y), {from}, n, 1, kind),
       cudaArray_t to, size_t x, size_t y, const void* from, size_t n)
COPIES(cudaMemcpyFromArray, cudaMemcpyFromArrayAsync, copied({to}, part_of(from, x, y), n, 1, kind), void* to,
       cudaArray_const_t from, size_t x, size_t y, size_t n)

API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t tx, size_t ty, cudaArray_const_t from, size_t fx,
                             size_t fy, size_t width, size_t height, cudaMemcpyKind kind) {
    return run(copied(part_of(to, tx, ty), part_of(from, fx, fy), width, height, kind), kind, nullptr);
}

API cudaMemcpy3D(const cudaMemcpy3DParms* p) { return run(from_3d(*p), p->kind, nullptr); }
API cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t s) { return run(from_3d(*p), p->kind, &s); }

API cudaMemcpyToSymbol(const void* symbol, const void* from, size_t n, size_t offset, cudaMemcpyKind kind) {
    return copy_symbol(symbol, offset, n, kind, from, nullptr, nullptr);
}

API cudaMemcpyFromSymbol(void* to, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind) {
    return copy_symbol(symbol, offset, n, kind, nullptr, to, nullptr);
}

API cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t n, size_t offset,
                            cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_symbol(symbol, offset, n, kind, from, nullptr, &stream);
}

API cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    return copy_symbol(symbol, offset, n, kind, nullptr, to, &stream);
}

API cudaGetSymbolAddress(void** out, const void* symbol) {
    return ended(find_symbol(address(out), nullptr, symbol));
}

API cudaGetSymbolSize(size_t* out, const void* symbol) {
    CUdeviceptr start;
    return ended(find_symbol(&start, out, symbol));
}

API cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
    TRY(standin_begin());
    for (size_t z = 0; z < extent.depth; z++) {
        CUdeviceptr plane = address(to.ptr) + z * to.pitch * to.ysize;
        TRY(cuMemsetD2D8Async(plane, to.pitch, value, extent.width, extent.height, stream));
    }
    return cudaSuccess;
}

API cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
    return cudaMemset3DAsync(to, value, extent, nullptr);
}

// ---- Arrays and textures ----

namespace {

bool to_format(const cudaChannelFormatDesc& desc, CUarray_format* format, unsigned* channels) {
    *channels = !!desc.x + !!desc.y + !!desc.z + !!desc.w;
    bool found = false;
    for (const Format& known : kFormats)
        if (known.kind == desc.f && known.bits == desc.x) *format = known.format, found = true;
    return found;
}

cudaError_t create_array(cudaArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent,
                         unsigned flags) {
    CUDA_ARRAY3D_DESCRIPTOR shape{extent.width, extent.height, extent.depth, {}, 0, flags};
    TRY(standin_begin());
    TRY(to_format(*desc, &shape.Format, &shape.NumChannels) ? 0 : cudaErrorInvalidChannelDescriptor);
    return ended(cuArray3DCreate(reinterpret_cast<CUarray*>(out), &shape));
}

bool to_resource(const cudaResourceDesc& given, CUDA_RESOURCE_DESC* out) {
    *out = {};
    out->resType = static_cast<CUresourcetype>(given.resType);
    if (given.resType == cudaResourceTypeArray) out->res.array.hArray = array(given.res.array.array);
    if (given.resType == cudaResourceTypeLinear) {
        auto& linear = out->res.linear;
        linear.devPtr = address(given.res.linear.devPtr), linear.sizeInBytes = given.res.linear.sizeInBytes;
        return to_format(given.res.linear.desc, &linear.format, &linear.numChannels);
    }
    if (given.resType == cudaResourceTypePitch2D) {
        auto& plane = out->res.pitch2D;
        plane.devPtr = address(given.res.pitch2D.devPtr), plane.width = given.res.pitch2D.width;
        plane.height = given.res.pitch2D.height, plane.pitchInBytes = given.res.pitch2D.pitchInBytes;
        return to_format(given.res.pitch2D.desc, &plane.format, &plane.numChannels);
    }
    return true;
}

CUDA_TEXTURE_DESC to_texture(const cudaTextureDesc& given) {
    CUDA_TEXTURE_DESC out{};
    for (int i = 0; i < 3; i++) out.addressMode[i] = static_cast<CUaddress_mode>(given.addressMode[i]);
    out.filterMode = static_cast<CUfilter_mode>(given.filterMode);
    if (given.readMode == cudaReadModeElementType) out.flags |= CU_TRSF_READ_AS_INTEGER;
    if (given.normalizedCoords) out.flags |= CU_TRSF_NORMALIZED_COORDINATES;
    return out;
}

}  // namespace

EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}

API cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* desc, size_t width, size_t height,
                    unsigned flags) {
    return create_array(out, desc, {width, height, 0}, flags);
}

API cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent,
                      unsigned flags) {
    return create_array(out, desc, extent, flags);
}

API cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t handle) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    TRY(cuArray3DGetDescriptor(&shape, array(handle)));
    if (desc) *desc = channels_of(shape);
    if (extent) *extent = {shape.Width, shape.Height, shape.Depth};
    if (flags) *flags = shape.Flags;
    return cudaSuccess;
}

API cudaGetChannelDesc(cudaChannelFormatDesc* out, cudaArray_const_t array) {
    return cudaArrayGetInfo(out, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

API cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* resource,
                            const cudaTextureDesc* texture, const cudaResourceViewDesc*) {
    CUDA_RESOURCE_DESC what;
    TRY(standin_begin());
    TRY(to_resource(*resource, &what) ? 0 : cudaErrorInvalidChannelDescriptor);
    CUDA_TEXTURE_DESC how = to_texture(*texture);
    CUtexObject made = 0;
    TRY(cuTexObjectCreate(&made, &what, &how, nullptr));
    *out = made;
    return cudaSuccess;
}

// ---- Streams and events ----

FN(cudaStreamCreate, (cudaStream_t * out), return ended(cuStreamCreate(out, 0)))
FN(cudaEventCreate, (cudaEvent_t * out), return ended(cuEventCreate(out, 0)))

// ---- Graphs: nodes of other kinds have the driver's parameters ----

#define NEEDS cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *needs, size_t count

static int to_kernel(const cudaKernelNodeParams& p, CUDA_KERNEL_NODE_PARAMS* out) {
    const dim3 &g = p.gridDim, &b = p.blockDim;
    *out = {nullptr, g.x, g.y, g.z, b.x, b.y, b.z, p.sharedMemBytes, p.kernelParams, p.extra};
    int code = standin_begin();
    return code ? code : find(&out->func, p.func);
}

static int to_copy(const cudaMemcpy3DParms& p, CUDA_MEMCPY3D* out) {
    int code = standin_begin();
    *out = from_3d(p);
    return code;
}

#define NODE(name, parameters, convert, made_type, call) \
    API name parameters {                                \
        made_type made;                                  \
        TRY(convert(*p, &made));                         \
        return ended(call);                              \
    }
#define NODES(kind, type, convert, made_type, ...)                                                           \
    NODE(cudaGraphAdd##kind##Node, (NEEDS, const type* p), convert, made_type,                               \
         cuGraphAdd##kind##Node(out, graph, needs, count, &made __VA_ARGS__))                                \
    NODE(cudaGraph##kind##NodeSetParams, (cudaGraphNode_t node, const type* p), convert, made_type,          \
         cuGraph##kind##NodeSetParams(node, &made))                                                          \
    NODE(cudaGraphExec##kind##NodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, const type* p),    \
         convert, made_type, cuGraphExec##kind##NodeSetParams(exec, node, &made __VA_ARGS__))
#define NO_CONTEXT , nullptr

NODES(Kernel, cudaKernelNodeParams, to_kernel, CUDA_KERNEL_NODE_PARAMS)
NODES(Memcpy, cudaMemcpy3DParms, to_copy, CUDA_MEMCPY3D, NO_CONTEXT)
static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "handed on unchanged");
static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "handed on unchanged");
static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "handed on unchanged");

API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* out) {
    CUDA_KERNEL_NODE_PARAMS p{};
    TRY(cuGraphKernelNodeGetParams(node, &p));
    Lock lock(program().mutex);
    dim3 grid{p.gridDimX, p.gridDimY, p.gridDimZ}, block{p.blockDimX, p.blockDimY, p.blockDimZ};
    *out = {const_cast<void*>(program().stubs[p.func]), grid, block, p.sharedMemBytes, p.kernelParams, nullptr};
    return cudaSuccess;
}

API cudaGraphAddMemcpyNode1D(NEEDS, void* to, const void* from, size_t n, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy = copied({to}, {from}, n, 1, kind);
    return ended(cuGraphAddMemcpyNode(out, graph, needs, count, &copy, nullptr));
}

API cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from,
                                       size_t n, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy = copied({to}, {from}, n, 1, kind);
    return ended(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, nullptr));
}

FN(cudaGraphInstantiate, (cudaGraphExec_t * out, cudaGraph_t graph, unsigned long long flags),
   return ended(cuGraphInstantiateWithFlags(out, graph, flags)))

// ---- Entry points of the driver ----

API cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version, unsigned long long flags,
                                     cudaDriverEntryPointQueryResult* status) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    TRY(cuGetProcAddress(name, out, version, flags, &found));
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return cudaSuccess;
}

#if CUDART_VERSION < 13000
API cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                            cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPointByVersion(name, out, CUDART_VERSION, flags, status);
}
#endif

API cudaGetExportTable(const void** out, const cudaUUID_t*) {
    *out = nullptr;
    return ended(cudaErrorNotSupported);
}
