// Modules, linking, attributes and occupancy of kernels, and launches.
#include <cuda_occupancy.h>
#include <elf.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core.h"

using namespace standin;

// ---- Images of modules ----

namespace {

constexpr unsigned kWrapper = 0x466243b1, kFatBinary = 0xba55ed50;
const char kArchive[] = "!<arch>\n";
const char kLinked[24] = "workbench linked image";  // what begins an image that cuLinkComplete made

struct Wrapper {
    unsigned magic, version;
    const void* data;
    const void* const* linked;  // version 2: the fat binaries of the objects, up to a null
};

struct FatHeader {
    unsigned magic;
    unsigned short version, header;
    unsigned long long size;
};

size_t elf_size(const char* image) {
    auto* head = reinterpret_cast<const Elf64_Ehdr*>(image);
    size_t end = std::max<size_t>(head->e_shoff + size_t{head->e_shnum} * head->e_shentsize,
                                  head->e_phoff + size_t{head->e_phnum} * head->e_phentsize);
    for (int i = 0; i < head->e_shnum; i++) {
        auto* section = reinterpret_cast<const Elf64_Shdr*>(image + head->e_shoff + i * head->e_shentsize);
        if (section->sh_type != SHT_NOBITS)
            end = std::max<size_t>(end, section->sh_offset + section->sh_size);
    }
    return end;
}

// Cuts an image to its own length: a fat binary, a cubin or PTX.
std::string cut(const void* image) {
    auto* text = static_cast<const char*>(image);
    auto* head = static_cast<const FatHeader*>(image);
    if (head->magic == kFatBinary) return {text, size_t{head->header} + head->size};
    if (!memcmp(text, ELFMAG, SELFMAG)) return {text, elf_size(text)};
    return text;
}

std::string framed(const std::string& part) {
    unsigned long long length = part.size();
    return std::string(reinterpret_cast<char*>(&length), sizeof length) + part;
}

// The parts of an image, as the message to the emulator holds them; counts them.
std::string parts_of(const void* image, size_t* count) {
    auto* wrapper = static_cast<const Wrapper*>(image);
    *count = 1;
    if (!memcmp(image, kLinked, sizeof kLinked)) {
        size_t numbers[2];
        memcpy(numbers, static_cast<const char*>(image) + sizeof kLinked, sizeof numbers);
        *count = numbers[0];
        return {static_cast<const char*>(image) + sizeof kLinked + sizeof numbers, numbers[1]};
    }
    if (wrapper->magic != kWrapper) return framed(cut(image));
    if (wrapper->version != 2 || !wrapper->linked || !*wrapper->linked) return framed(cut(wrapper->data));
    std::string parts;
    *count = 0;
    for (auto* part = wrapper->linked; *part; part++, ++*count) parts += framed(cut(*part));
    return parts;
}

// ---- Modules ----

void read_kernel(std::istringstream& words, Module* module) {
    auto function = std::make_unique<Function>();
    std::string list;
    words >> function->name >> function->shared >> function->threads >> list;
    std::istringstream parameters(list);
    size_t offset, size;
    for (char mark; parameters >> offset >> mark >> size; parameters >> mark)
        function->parameters.push_back({offset, size});
    function->module = module;
    add_handle(function.get());
    module->functions[function->name] = std::move(function);
}

void read_module(const std::string& text, Module* module) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string kind, name;
        words >> kind;
        if (kind == "kernel") read_kernel(words, module);
        CUdeviceptr address;
        size_t size;
        if (kind == "variable" && words >> name >> address >> size) module->variables[name] = {address, size};
    }
}

// Puts the text of an error where the options of a compilation want it.
void write_log(const std::string& text, unsigned count, CUjit_option* options, void** values) {
    char* buffer = nullptr;
    size_t room = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            room = reinterpret_cast<size_t>(values[i]) & ~0u;
    }
    if (buffer && room) snprintf(buffer, room, "%s", text.c_str());
}

std::string contents(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

CUresult load(CUmodule* out, const void* image, unsigned count, CUjit_option* options, void** values) {
    TRY(ready());
    VALID(out && image);
    static std::atomic<int> number{0};
    auto* module = new Module;
    module->number = ++number;
    size_t parts;
    std::string payload = parts_of(image, &parts);
    Reply reply = ask("MODULE " + std::to_string(module->number) + " " + std::to_string(parts), payload);
    write_log(reply.code ? reply.text : "", count, options, values);
    TRY(reply.code);
    read_module(reply.text, module);
    return give(out, module);
}

}  // namespace

// A library of the driver is a module here, and a kernel is a function: library.py gives their functions'
// names.
#define MODULE(handle)                 \
    auto* module = as<Module>(handle); \
    HANDLE(module)
#define FUNCTION(handle)                   \
    auto* function = as<Function>(handle); \
    HANDLE(function)

API cuModuleLoadData(CUmodule* out, const void* image) { return load(out, image, 0, nullptr, nullptr); }

API cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned count, CUjit_option* options,
                       void** values) {
    return load(out, image, count, options, values);
}

API cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option* options, void** values, unsigned count,
                      CUlibraryOption*, void**, unsigned) {
    return load(reinterpret_cast<CUmodule*>(out), image, count, options, values);
}

API cuModuleLoad(CUmodule* out, const char* path) {
    std::string image = contents(path);
    NEED(!image.empty(), CUDA_ERROR_FILE_NOT_FOUND);
    return cuModuleLoadData(out, image.c_str());
}

FN(cuModuleUnload, (CUmodule handle), MODULE(handle); drop_handle(module);
   for (auto& entry : module->functions) drop_handle(entry.second.get()))
FN(cuModuleGetLoadingMode, (CUmoduleLoadingMode * out), *out = CU_MODULE_LAZY_LOADING)
FN(cuModuleGetFunction, (CUfunction * out, CUmodule handle, const char* name), MODULE(handle);
   auto found = module->functions.find(name); NEED(found != module->functions.end(), CUDA_ERROR_NOT_FOUND);
   *out = reinterpret_cast<CUfunction>(static_cast<Object*>(found->second.get())))
FN(cuModuleGetGlobal, (CUdeviceptr * address, size_t* size, CUmodule handle, const char* name),
   MODULE(handle);
   auto found = module->variables.find(name); NEED(found != module->variables.end(), CUDA_ERROR_NOT_FOUND);
   if (address) address[0] = found->second.first; if (size) size[0] = found->second.second)
FN(cuModuleGetFunctionCount, (unsigned* out, CUmodule handle), MODULE(handle);
   *out = module->functions.size())

API cuModuleEnumerateFunctions(CUfunction* out, unsigned room, CUmodule handle) {
    MODULE(handle);
    unsigned i = 0;
    for (auto& entry : module->functions)
        if (i < room) out[i++] = reinterpret_cast<CUfunction>(static_cast<Object*>(entry.second.get()));
    return CUDA_SUCCESS;
}

FN(cuLibraryGetModule, (CUmodule * out, CUlibrary handle), MODULE(handle);
   *out = reinterpret_cast<CUmodule>(handle))
FN(cuKernelGetFunction, (CUfunction * out, CUkernel handle), FUNCTION(handle);
   *out = reinterpret_cast<CUfunction>(handle))
FN(cuFuncGetModule, (CUmodule * out, CUfunction handle), FUNCTION(handle);
   *out = reinterpret_cast<CUmodule>(static_cast<Object*>(function->module)))
FN(cuFuncGetName, (const char** out, CUfunction handle), FUNCTION(handle); *out = function->name.c_str())
FN(cuFuncGetParamInfo, (CUfunction handle, size_t index, size_t* offset, size_t* size), FUNCTION(handle);
   VALID(index < function->parameters.size()); offset[0] = function->parameters[index].first;
   if (size) size[0] = function->parameters[index].second)
FN(cuFuncIsLoaded, (CUfunctionLoadingState * out, CUfunction), *out = CU_FUNCTION_LOADING_STATE_LOADED)

// ---- Linking: the emulator links, and the image carries the parts ----

namespace {

struct Link : Object {
    size_t count = 0;
    std::string parts, image;
};

}  // namespace

#define LINK(handle)               \
    auto* link = as<Link>(handle); \
    HANDLE(link)

FN(cuLinkCreate, (unsigned, CUjit_option*, void**, CUlinkState* out), give(out, new Link))
API cuLinkAddData(CUlinkState handle, CUjitInputType, void* data, size_t size, const char*, unsigned,
                  CUjit_option*, void**) {
    TRY(ready());
    LINK(handle);
    VALID(data && size);
    std::string part(static_cast<char*>(data), size);
    if (part.compare(0, sizeof kArchive - 1, kArchive)) {
        link->parts += framed(part), link->count++;
        return CUDA_SUCCESS;
    }
    // libcudadevrt.a is the library of dynamic parallelism: the emulator needs nothing of it.
    if (part.find("cuda_device_runtime") != part.npos) return CUDA_SUCCESS;
    return static_cast<CUresult>(standin_missing("cuLinkAddData(library.a)"));
}

API cuLinkAddFile(CUlinkState handle, CUjitInputType type, const char* path, unsigned count,
                  CUjit_option* options, void** values) {
    std::string data = contents(path);
    NEED(!data.empty(), CUDA_ERROR_FILE_NOT_FOUND);
    return cuLinkAddData(handle, type, &data[0], data.size(), path, count, options, values);
}

API cuLinkComplete(CUlinkState handle, void** image, size_t* size) {
    LINK(handle);
    size_t numbers[2] = {link->count, link->parts.size()};
    link->image.assign(kLinked, sizeof kLinked);
    link->image.append(reinterpret_cast<char*>(numbers), sizeof numbers);
    link->image += link->parts;
    *image = &link->image[0];
    if (size) *size = link->image.size();
    return CUDA_SUCCESS;
}

FN(cuLinkDestroy, (CUlinkState handle), LINK(handle); drop_handle(link); delete link)

// ---- Attributes of functions ----

namespace {

// What ptxas says of a kernel; asked for once.
CUresult ask_resources(Function* function) {
    if (function->asked) return CUDA_SUCCESS;
    Reply reply = ask("RESOURCES " + std::to_string(function->module->number) + " " + function->name);
    TRY(reply.code);
    std::istringstream words(reply.text);
    std::string key;
    for (int value; words >> key >> value;) function->resources[key] = value;
    function->resources["threads"] = std::min(function->resources["threads"], function->threads);
    function->asked = true;
    return CUDA_SUCCESS;
}

int value_of(const Function& function, int which, int otherwise) {
    auto found = function.set.find(which);
    return found == function.set.end() ? otherwise : found->second;
}

int most_dynamic_shared(const Function& function) {
    int most = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) - static_cast<int>(function.shared);
    return std::max(0, value_of(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
}

unsigned largest_cluster(const Function& function) {
    return value_of(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0) ? 16 : 8;
}

CUresult get_attribute(int* out, CUfunction_attribute which, Function* function) {
    static const std::map<int, const char*> asked = {{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "threads"},
                                                     {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, "constant"},
                                                     {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, "local"},
                                                     {CU_FUNC_ATTRIBUTE_NUM_REGS, "registers"},
                                                     {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "shared"}};
    if (auto found = asked.find(which); found != asked.end()) {
        TRY(ask_resources(function));
        *out = function->resources[found->second];
    } else if (which == CU_FUNC_ATTRIBUTE_PTX_VERSION || which == CU_FUNC_ATTRIBUTE_BINARY_VERSION) {
        *out = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
               attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    } else if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        *out = most_dynamic_shared(*function);
    } else {
        *out =
            value_of(*function, which, which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? -1 : 0);
    }
    return CUDA_SUCCESS;
}

}  // namespace

FN(cuFuncGetAttribute, (int* out, CUfunction_attribute which, CUfunction handle), FUNCTION(handle);
   return get_attribute(out, which, function))

API cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
    TRY(ready());
    FUNCTION(handle);
    int room =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - static_cast<int>(function->shared);
    VALID(which >= CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && which < CU_FUNC_ATTRIBUTE_MAX);
    VALID(which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || (value >= 0 && value <= room));
    function->set[which] = value;
    return CUDA_SUCCESS;
}

API cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel, CUdevice) {
    return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), which, value);
}

// ---- Occupancy, by the toolkit's own calculator ----

namespace {

struct Occupancy {
    cudaOccDeviceProp device;
    cudaOccFuncAttributes kernel;
    cudaOccDeviceState state;
};

CUresult occupancy_of(Function* function, Occupancy* out) {
    TRY(ask_resources(function));
    auto& [device, kernel, state] = *out;
    device.computeMajor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    device.computeMinor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    device.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    device.maxThreadsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    device.regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    device.regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    device.warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    device.sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    device.sharedMemPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    device.numSms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    device.sharedMemPerBlockOptin = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    device.reservedSharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    kernel.maxThreadsPerBlock = function->resources["threads"];
    kernel.numRegs = function->resources["registers"];
    kernel.sharedSizeBytes = function->resources["shared"];
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = most_dynamic_shared(*function);
    kernel.numBlockBarriers = 1;
    return CUDA_SUCCESS;
}

// How many blocks an SM holds; 0 where one does not fit.
CUresult blocks_per_sm(int* out, Function* function, int threads, size_t shared) {
    Occupancy of;
    TRY(occupancy_of(function, &of));
    VALID(threads > 0);
    cudaOccResult result;
    bool fits = !cudaOccMaxActiveBlocksPerMultiprocessor(&result, &of.device, &of.kernel, &of.state, threads,
                                                         shared);
    *out = fits ? result.activeBlocksPerMultiprocessor : 0;
    return CUDA_SUCCESS;
}

CUresult blocks_on_device(size_t* out, Function* function, int threads, size_t shared) {
    int blocks;
    TRY(blocks_per_sm(&blocks, function, threads, shared));
    *out = size_t(blocks) * attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

}  // namespace

FN(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* out, CUfunction handle, int threads, size_t shared),
   FUNCTION(handle);
   return blocks_per_sm(out, function, threads, shared))

API cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize sizes,
                                     size_t shared, int limit) {
    TRY(ready());
    FUNCTION(handle);
    TRY(ask_resources(function));
    int most = function->resources["threads"];
    size_t best = 0, blocks;
    if (limit > 0) most = std::min(most, limit);
    for (int rounded = (most + 31) / 32 * 32; rounded > 0; rounded -= 32) {
        int threads = std::min(rounded, most);
        TRY(blocks_on_device(&blocks, function, threads, sizes ? sizes(threads) : shared));
        if (blocks * threads > best) best = blocks * threads, *block = threads, *grid = blocks;
    }
    return CUDA_SUCCESS;
}

API cuOccupancyAvailableDynamicSMemPerBlock(size_t* out, CUfunction handle, int blocks, int threads) {
    TRY(ready());
    FUNCTION(handle);
    Occupancy of;
    TRY(occupancy_of(function, &of));
    VALID(!cudaOccAvailableDynamicSMemPerBlock(out, &of.device, &of.kernel, &of.state, blocks, threads));
    return CUDA_SUCCESS;
}

FN(cuOccupancyMaxPotentialClusterSize, (int* out, CUfunction handle, const CUlaunchConfig*), FUNCTION(handle);
   *out = largest_cluster(*function))

API cuOccupancyMaxActiveClusters(int* out, CUfunction handle, const CUlaunchConfig* config) {
    TRY(ready());
    FUNCTION(handle);
    size_t blocks, size = 1;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        auto& dims = config->attrs[i].value.clusterDim;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) size = dims.x * dims.y * dims.z;
    }
    int threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    TRY(blocks_on_device(&blocks, function, threads, config->sharedMemBytes));
    *out = size ? blocks / size : 0;
    return CUDA_SUCCESS;
}

// ---- Launches ----

namespace {

// The errors that a driver finds before the kernel runs.
CUresult check_sizes(const Launch& launch) {
    size_t threads = 1;
    for (int i = 0; i < 3; i++) {
        unsigned most_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
        unsigned most_grid = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
        VALID(launch.block[i] && launch.block[i] <= most_block && launch.grid[i] &&
              launch.grid[i] <= most_grid);
        threads *= launch.block[i];
    }
    int most = std::min(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), launch.function->threads);
    VALID(threads <= static_cast<size_t>(most));
    VALID(launch.shared <= static_cast<unsigned>(most_dynamic_shared(*launch.function)));
    return CUDA_SUCCESS;
}

CUresult check_cluster(const Launch& launch) {
    unsigned size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    bool fits = size && size <= largest_cluster(*launch.function);
    for (int i = 0; fits && i < 3; i++) fits = launch.grid[i] % launch.cluster[i] == 0;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

// All blocks of a cooperative launch must be on the device at once.
CUresult check_cooperative(const Launch& launch) {
    size_t room = 0, blocks = size_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
    int threads = launch.block[0] * launch.block[1] * launch.block[2];
    bool unknown = !launch.cooperative || blocks_on_device(&room, launch.function, threads, launch.shared);
    return unknown || blocks <= room ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

// Checks a launch as a driver does. Many programs do not look at the error, so the emulator is told.
CUresult check(const Launch& launch) {
    CUresult error = check_sizes(launch);
    if (!error) error = check_cluster(launch);
    if (!error) error = check_cooperative(launch);
    if (!error) return error;
    std::string line = "REFUSED " + std::to_string(error) + " " + launch.function->name;
    for (const unsigned* extents : {launch.grid, launch.block})
        for (int i = 0; i < 3; i++) line += " " + std::to_string(extents[i]);
    tell(line + " " + std::to_string(launch.shared));
    return error;
}

// Takes the parameters from a buffer that the program packed, or one by one.
CUresult pack(Launch* launch, void** values, void** extra) {
    const char* buffer = nullptr;
    size_t length = 0, end = 0;
    for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<char*>(extra[i + 1]);
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) length = *static_cast<size_t*>(extra[i + 1]);
    }
    for (auto [offset, size] : launch->function->parameters) end = std::max(end, offset + size);
    VALID(values || buffer || !end);
    if (buffer) launch->parameters.assign(buffer, length);
    launch->parameters.resize(end);
    for (size_t i = 0; values && !buffer && i < launch->function->parameters.size(); i++) {
        auto [offset, size] = launch->function->parameters[i];
        memcpy(&launch->parameters[offset], values[i], size);
    }
    return CUDA_SUCCESS;
}

void apply_attribute(Launch* launch, const CUlaunchAttribute& given) {
    auto& value = given.value;
    if (given.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch->cooperative = value.cooperative;
    if (given.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) std::copy_n(&value.clusterDim.x, 3, launch->cluster);
    if (given.id != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) return;
    if (value.accessPolicyWindow.hitProp == CU_ACCESS_PROPERTY_PERSISTING) tell("PERSISTING");
}

}  // namespace

CUresult standin::make_launch(Launch* launch, const CUlaunchConfig& config, const void* handle, void** values,
                              void** extra) {
    FUNCTION(handle);
    *launch = {function,
               {config.gridDimX, config.gridDimY, config.gridDimZ},
               {config.blockDimX, config.blockDimY, config.blockDimZ},
               {1, 1, 1}, config.sharedMemBytes, false, {}};
    for (unsigned i = 0; i < config.numAttrs; i++) apply_attribute(launch, config.attrs[i]);
    TRY(check(*launch));
    return pack(launch, values, extra);
}

FN(cuStreamSetAttribute, (CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value), STREAM(handle);
   Launch none; apply_attribute(&none, {id, {}, *value}))

API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** values, void** extra) {
    TRY(ready());
    VALID(config);
    Launch launch;
    TRY(make_launch(&launch, *config, function, values, extra));
    return submit(config->hStream, std::move(launch));
}

API cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, CUstream stream, void** values, void** extra) {
    CUlaunchConfig config{gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0};
    return cuLaunchKernelEx(&config, function, values, extra);
}

API cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, CUstream stream, void** values) {
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
    CUlaunchConfig config{gx, gy, gz, bx, by, bz, shared, stream, &cooperative, 1};
    return cuLaunchKernelEx(&config, function, values, nullptr);
}
