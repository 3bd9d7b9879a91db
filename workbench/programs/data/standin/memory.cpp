// The arena: which parts are allocated, which bytes were written, copies and fills.
#include "core.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace standin {
namespace {

constexpr size_t kAlign = 256, kPage = 4096, kLeastGap = 512, kMostGap = 16 << 20, kPunched = 1 << 16;

struct Arena {
    std::recursive_mutex mutex;
    int file = -1, mask_file = -1;
    char* base = nullptr;
    unsigned char* mask = nullptr;  // 1 for each byte that something wrote; null without checks
    size_t size = 0, reserved = 0, used = 0;
    std::map<size_t, size_t> holes;  // begin and length
    std::map<CUdeviceptr, Block> blocks;
    std::map<size_t, std::pair<size_t, CUdeviceptr>> mapped;  // host address: size, arena's address
};

Arena& arena() {
    static Arena* made = new Arena;
    return *made;
}

using Lock = std::unique_lock<std::recursive_mutex>;

size_t rounded(size_t value, size_t to) { return (value + to - 1) / to * to; }

const char* const kNames[] = {"device", "pinned", "managed", "array", "mapped"};

void tell_allocated(const Block& block) {
    std::ostringstream line;
    line << "ALLOC " << block.start << ' ' << block.size << ' ' << kNames[static_cast<int>(block.kind)];
    tell(line.str(), call_chain());
}

// Takes a part of the first hole that is large enough.
bool take_hole(size_t room, size_t* begin) {
    Arena& a = arena();
    for (auto it = a.holes.begin(); it != a.holes.end(); ++it) {
        if (it->second < room) continue;
        *begin = it->first;
        size_t left = it->second - room;
        a.holes.erase(it);
        if (left) a.holes[*begin + room] = left;
        return true;
    }
    return false;
}

void return_hole(size_t begin, size_t room) {
    auto& holes = arena().holes;
    auto next = holes.lower_bound(begin);
    if (next != holes.end() && next->first == begin + room) {
        room += next->second;
        next = holes.erase(next);
    }
    if (next != holes.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == begin) {
            before->second += room;
            return;
        }
    }
    holes[begin] = room;
}

// Zeroes a part of a memory; whole pages are given back to the system.
void clear(char* memory, int file, size_t offset, size_t size) {
    size_t first = rounded(offset, kPage), last = (offset + size) / kPage * kPage;
    bool punched = size >= kPunched && last > first &&
                   !fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, last - first);
    if (!punched) {
        memset(memory + offset, 0, size);
        return;
    }
    memset(memory + offset, 0, first - offset);
    memset(memory + last, 0, offset + size - last);
}

void mark(CUdeviceptr address, size_t size, int value) {
    Arena& a = arena();
    if (!a.mask || !size) return;
    size_t offset = address - reinterpret_cast<size_t>(a.base);
    if (value)
        memset(a.mask + offset, value, size);
    else
        clear(reinterpret_cast<char*>(a.mask), a.mask_file, offset, size);
}

void forget(const Block& block) {
    Arena& a = arena();
    clear(a.base, a.file, block.start - reinterpret_cast<size_t>(a.base), block.size);
    mark(block.start, block.size, 0);
}

std::map<CUdeviceptr, Block>::iterator block_at(CUdeviceptr address) {
    auto& blocks = arena().blocks;
    auto it = blocks.upper_bound(address);
    if (it == blocks.begin()) return blocks.end();
    --it;
    return address < it->second.start + it->second.size ? it : blocks.end();
}

}  // namespace

size_t open_arena(int file, int mask, size_t size, size_t reserved, bool check,
                  const std::string& addresses) {
    Arena& a = arena();
    std::istringstream list(addresses);
    for (std::string word; !a.base && std::getline(list, word, ',');) {
        void* wanted = reinterpret_cast<void*>(strtoull(word.c_str(), nullptr, 0));
        int flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        void* got = mmap(wanted, size, PROT_READ | PROT_WRITE, flags, file, 0);
        if (got == wanted)
            a.base = static_cast<char*>(got);
        else if (got != MAP_FAILED)
            munmap(got, size);
    }
    if (!a.base) return 0;
    if (check) {
        void* got = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mask, 0);
        if (got == MAP_FAILED) return 0;
        a.mask = static_cast<unsigned char*>(got);
    }
    a.file = file, a.mask_file = mask, a.size = size, a.reserved = reserved;
    size_t first = rounded(reserved + kLeastGap, kPage);
    a.holes[first] = size - first;
    return reinterpret_cast<size_t>(a.base);
}

// ---- Allocations ----

CUresult allocate(CUdeviceptr* out, size_t size, Kind kind, unsigned flags) {
    Arena& a = arena();
    Lock lock(a.mutex);
    size_t align = kind == Kind::Mapped ? kPage : kAlign;
    size_t gap = std::min(std::max(size, kLeastGap), kMostGap), begin = 0;
    if (size > facts().memory - a.used || size > a.size) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t room = rounded(size + gap + align - kAlign, kAlign);
    if (!take_hole(room, &begin)) {
        room = rounded(size + kLeastGap + align - kAlign, kAlign);
        if (!take_hole(room, &begin)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Block block;
    block.start = reinterpret_cast<CUdeviceptr>(a.base) + rounded(begin, align);
    block.size = size, block.kind = kind, block.flags = flags, block.begin = begin, block.room = room;
    a.blocks[block.start] = block;
    a.used += size;
    if (kind != Kind::Device) mark(block.start, size, 1);
    if (kind != Kind::Mapped) tell_allocated(block);
    *out = block.start;
    return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
    Arena& a = arena();
    Lock lock(a.mutex);
    auto it = a.blocks.find(address);
    if (it == a.blocks.end() || (it->second.graph && !it->second.live)) return CUDA_ERROR_INVALID_VALUE;
    Block block = it->second;
    if (block.graph) {  // its next launch allocates the same address
        wake(address, false);
        return CUDA_SUCCESS;
    }
    a.blocks.erase(it);
    forget(block);
    return_hole(block.begin, block.room);
    a.used -= block.size;
    if (block.live) tell("FREE " + std::to_string(block.start));
    return CUDA_SUCCESS;
}

void reserve_for_graph(CUdeviceptr address) {
    Lock lock(arena().mutex);
    arena().blocks[address].graph = true;
    wake(address, false);
}

void wake(CUdeviceptr address, bool live) {
    Lock lock(arena().mutex);
    auto it = arena().blocks.find(address);
    if (it == arena().blocks.end() || it->second.live == live) return;
    it->second.live = live;
    if (live) return tell_allocated(it->second);
    forget(it->second);
    tell("FREE " + std::to_string(address));
}

void release_all() {
    Lock lock(arena().mutex);
    std::vector<CUdeviceptr> all;
    for (auto& [address, block] : arena().blocks)
        if (block.kind == Kind::Device || block.kind == Kind::Managed) all.push_back(address);
    for (CUdeviceptr address : all) release(address);
}

// The pages of the program become pages of the arena, with the same contents.
CUresult map_host(void* pointer, size_t size, unsigned flags) {
    Arena& a = arena();
    Lock lock(a.mutex);
    size_t host = reinterpret_cast<size_t>(pointer), first = host / kPage * kPage;
    size_t length = rounded(host + size, kPage) - first;
    if (in_arena(host)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    for (auto& [start, range] : a.mapped)
        if (host < start + range.first && start < host + size)
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    CUdeviceptr device;
    if (CUresult code = allocate(&device, length, Kind::Mapped, flags)) return code;
    memcpy(reinterpret_cast<void*>(device), reinterpret_cast<void*>(first), length);
    off_t offset = device - reinterpret_cast<size_t>(a.base);
    int fixed = MAP_SHARED | MAP_FIXED;
    if (mmap(reinterpret_cast<void*>(first), length, PROT_READ | PROT_WRITE, fixed, a.file, offset) ==
        MAP_FAILED) {
        release(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Block& block = a.blocks[device];
    block.host = static_cast<char*>(pointer);
    a.mapped[host] = {size, device + (host - first)};
    Block seen = block;
    seen.start += host - first, seen.size = size;
    tell_allocated(seen);
    return CUDA_SUCCESS;
}

CUresult unmap_host(void* pointer) {
    Arena& a = arena();
    Lock lock(a.mutex);
    auto found = a.mapped.find(reinterpret_cast<size_t>(pointer));
    if (found == a.mapped.end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    CUdeviceptr seen = found->second.second;
    Block block = block_at(seen)->second;
    void* first = reinterpret_cast<void*>(reinterpret_cast<size_t>(pointer) / kPage * kPage);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* copy = mmap(nullptr, block.size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (copy == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, reinterpret_cast<void*>(block.start), block.size);
    if (mremap(copy, block.size, block.size, MREMAP_MAYMOVE | MREMAP_FIXED, first) == MAP_FAILED)
        return CUDA_ERROR_UNKNOWN;
    a.mapped.erase(found);
    a.blocks[block.start].live = false;  // the emulator knows it by the address that the program gave
    tell("FREE " + std::to_string(seen));
    return release(block.start);
}

bool find_block(CUdeviceptr address, Block* out) {
    Lock lock(arena().mutex);
    auto it = block_at(address);
    if (it == arena().blocks.end()) return false;
    *out = it->second;
    return true;
}

CUdeviceptr canonical(const void* pointer) {
    Arena& a = arena();
    size_t host = reinterpret_cast<size_t>(pointer);
    if (in_arena(host)) return host;
    Lock lock(a.mutex);
    auto it = a.mapped.upper_bound(host);
    if (it == a.mapped.begin()) return host;
    --it;
    return host < it->first + it->second.first ? it->second.second + (host - it->first) : host;
}

bool in_arena(CUdeviceptr address) {
    size_t base = reinterpret_cast<size_t>(arena().base);
    return address >= base && address < base + arena().size;
}

bool is_valid(CUdeviceptr address, size_t size) {
    Arena& a = arena();
    Lock lock(a.mutex);
    if (!in_arena(address)) return false;
    size_t offset = address - reinterpret_cast<size_t>(a.base);
    if (offset < a.reserved) return size <= a.reserved - offset;  // variables of modules
    auto it = block_at(address);
    return it != a.blocks.end() && size <= it->second.start + it->second.size - address;
}

size_t used_memory() { return arena().used; }

// ---- Copies and fills ----

namespace {

struct Side {
    char* at = nullptr;
    size_t pitch = 0, slice = 0;
};

Side linear_side(CUdeviceptr start, size_t pitch, size_t height, size_t x, size_t y, size_t z) {
    Side side;
    side.pitch = pitch, side.slice = pitch * height;
    side.at = reinterpret_cast<char*>(start) + z * side.slice + y * pitch + x;
    return side;
}

Side side_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray handle, size_t pitch,
             size_t height, size_t x, size_t y, size_t z) {
    if (type == CU_MEMORYTYPE_ARRAY) {
        auto* array = as<Array>(handle);
        return array ? linear_side(array->address, array->row, array->height, x, y, z) : Side{};
    }
    const void* pointer = type == CU_MEMORYTYPE_HOST ? host : reinterpret_cast<void*>(device);
    return linear_side(canonical(pointer), pitch, height, x, y, z);
}

Side source(const Copy& c) {
    return side_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight,
                   c.srcXInBytes, c.srcY, c.srcZ);
}

Side target(const Copy& c) {
    return side_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight,
                   c.dstXInBytes, c.dstY, c.dstZ);
}

size_t span(const Side& side, const Copy& c) {
    return (c.Depth - 1) * side.slice + (c.Height - 1) * side.pitch + c.WidthInBytes;
}

void move(char* to, const char* from, size_t size) {
    Arena& a = arena();
    memmove(to, from, size);
    if (!a.mask || !in_arena(reinterpret_cast<size_t>(to))) return;
    unsigned char* written = a.mask + (to - a.base);
    if (in_arena(reinterpret_cast<size_t>(from)))
        memmove(written, a.mask + (from - a.base), size);
    else
        memset(written, 1, size);
}

void touch(const char* start, size_t size) {
    if (in_arena(reinterpret_cast<size_t>(start)))
        tell("TOUCH " + std::to_string(reinterpret_cast<size_t>(start)) + " " + std::to_string(size));
}

// Pointers of the host are not checked: by unified addressing they may be the device's too.
bool is_side_valid(const Side& side, CUmemorytype type, const Copy& c) {
    CUdeviceptr at = reinterpret_cast<CUdeviceptr>(side.at);
    if (!at || ((c.Height > 1 || c.Depth > 1) && side.pitch < c.WidthInBytes)) return false;
    bool host = type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_UNIFIED;
    return (host && !in_arena(at)) || is_valid(at, span(side, c));
}

}  // namespace

Copy with_pitches(Copy copy) {
    if (!copy.srcPitch) copy.srcPitch = copy.srcXInBytes + copy.WidthInBytes;
    if (!copy.dstPitch) copy.dstPitch = copy.dstXInBytes + copy.WidthInBytes;
    if (!copy.srcHeight) copy.srcHeight = copy.srcY + copy.Height;
    if (!copy.dstHeight) copy.dstHeight = copy.dstY + copy.Height;
    return copy;
}

bool is_valid_copy(const Copy& copy) {
    if (!copy.WidthInBytes || !copy.Height || !copy.Depth) return true;
    return is_side_valid(source(copy), copy.srcMemoryType, copy) &&
           is_side_valid(target(copy), copy.dstMemoryType, copy);
}

// Whether a side is memory of the host that the driver did not allocate or register.
bool is_pageable(const Copy& copy) {
    return !in_arena(reinterpret_cast<size_t>(source(copy).at)) ||
           !in_arena(reinterpret_cast<size_t>(target(copy).at));
}

bool is_inside_device(const Copy& copy) {
    Block from, to;
    return find_block(reinterpret_cast<size_t>(source(copy).at), &from) && from.kind == Kind::Device &&
           find_block(reinterpret_cast<size_t>(target(copy).at), &to) && to.kind == Kind::Device;
}

CUresult run_copy(const Copy& copy) {
    Side from = source(copy), to = target(copy);
    if (!copy.WidthInBytes || !copy.Height || !copy.Depth) return CUDA_SUCCESS;
    if (!from.at || !to.at) return CUDA_ERROR_INVALID_VALUE;
    bool dense = from.pitch == copy.WidthInBytes && to.pitch == copy.WidthInBytes;
    size_t rows = dense ? 1 : copy.Height,
           width = dense ? copy.WidthInBytes * copy.Height : copy.WidthInBytes;
    for (size_t z = 0; z < copy.Depth; z++)
        for (size_t y = 0; y < rows; y++)
            move(to.at + z * to.slice + y * to.pitch, from.at + z * from.slice + y * from.pitch, width);
    touch(to.at, span(to, copy));
    return CUDA_SUCCESS;
}

bool is_valid_fill(const Fill& fill) {
    if (!fill.width || !fill.height) return true;
    size_t row = fill.width * fill.element;
    if (fill.height > 1 && fill.pitch < row) return false;
    return !(fill.to % fill.element) &&
           is_valid(canonical(reinterpret_cast<void*>(fill.to)), (fill.height - 1) * fill.pitch + row);
}

CUresult run_fill(const Fill& fill) {
    char* to = reinterpret_cast<char*>(canonical(reinterpret_cast<void*>(fill.to)));
    size_t row = fill.width * fill.element;
    for (size_t y = 0; y < fill.height; y++) {
        char* line = to + y * fill.pitch;
        if (fill.element == 1) memset(line, fill.value, fill.width);
        if (fill.element == 2) std::fill_n(reinterpret_cast<unsigned short*>(line), fill.width, fill.value);
        if (fill.element == 4) std::fill_n(reinterpret_cast<unsigned*>(line), fill.width, fill.value);
        mark(reinterpret_cast<CUdeviceptr>(line), row, 1);
    }
    if (row && fill.height) touch(to, (fill.height - 1) * fill.pitch + row);
    return CUDA_SUCCESS;
}

}  // namespace standin
