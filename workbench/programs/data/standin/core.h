// The shared parts of the stand-in: connection, queue, memory and the work that streams order.
//
// The stand-in takes the place of the CUDA driver. An emulator at the other end of a socket runs the kernels.
// Device memory is one arena that the program and the emulator both map: an address means the same on both
// sides, and a copy is a memmove. One worker thread takes work from one queue, first in, first out; this is a
// legal order of any set of streams. Launches, asynchronous copies, events and callbacks are queued.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// A function of the API, and the checks that begin it.
#define API extern "C" __attribute__((visibility("default"))) CUresult
#define TRY(call) \
    if (CUresult bad = (call)) return bad
#define NEED(condition, code) \
    if (!(condition)) return code
#define VALID(condition) NEED(condition, CUDA_ERROR_INVALID_VALUE)
#define HANDLE(condition) NEED(condition, CUDA_ERROR_INVALID_HANDLE)

// A short function of the API that works on a context no kernel broke.
#define FN(name, parameters, ...) \
    API name parameters {         \
        TRY(ready());             \
        __VA_ARGS__;              \
        return CUDA_SUCCESS;      \
    }
#define STREAM(handle)                  \
    Stream* stream = stream_of(handle); \
    HANDLE(stream)

namespace standin {

// ---- Handles: each handle is the address of an object that the registry knows ----

struct Object {
    virtual ~Object() = default;
};

bool is_known(const void* handle);
void add_handle(Object* object);
void drop_handle(Object* object);  // the object itself stays: queued work may still refer to it

// Returns the object of a handle, or null where the handle is not a live one of that type.
template <class T>
T* as(const void* handle) {
    auto* object = const_cast<Object*>(static_cast<const Object*>(handle));
    return is_known(handle) ? dynamic_cast<T*>(object) : nullptr;
}

template <class T, class Handle>
CUresult give(Handle* out, T* object) {
    add_handle(object);
    *out = reinterpret_cast<Handle>(static_cast<Object*>(object));
    return CUDA_SUCCESS;
}

// ---- The connection ----

struct Facts {
    std::string name = "NVIDIA GPU (emulated)";
    size_t memory = 0;
    std::map<int, int> attributes;
};

struct Reply {
    CUresult code = CUDA_SUCCESS;
    std::string text;   // the payload
    size_t number = 0;  // the number after OK
};

CUresult connected();  // connects at the first call of a process
CUresult ready();      // also returns the error of a context that a kernel broke
const Facts& facts();
int attribute(int which);
void tell(const std::string& line, const std::string& payload = {});       // sent before the next question
Reply exchange(const std::string& line, const std::string& payload = {});  // by the worker alone
Reply ask(const std::string& line, const std::string& payload = {});       // by any thread: queued
std::string call_chain();  // the frames of the program that led here, one a line
extern "C" int standin_missing(const char* name);
extern "C" int standin_nothing();  // what functions do whose effect nobody could see

// ---- Modules ----

struct Module;

struct Function : Object {
    Module* module = nullptr;
    std::string name;
    size_t shared = 0;
    int threads = 1024;
    std::vector<std::pair<size_t, size_t>> parameters;  // offset and size
    std::map<int, int> set;                             // attributes that the program set
    std::map<std::string, int> resources;               // of ptxas, asked for once
    bool asked = false;
};

struct Module : Object {
    int number = 0;
    std::map<std::string, std::unique_ptr<Function>> functions;
    std::map<std::string, std::pair<CUdeviceptr, size_t>> variables;
};

// ---- Streams, events and work ----

struct Graph;
struct Node;
struct Capture;

struct Stream : Object {
    int number = 0;
    unsigned flags = 0;
    int priority = 0;
    size_t last = 0;     // the ticket of the newest work
    size_t pending = 0;  // how much work is not done yet
    std::shared_ptr<Capture> capture;
    std::vector<Node*> tips;  // the nodes that the next captured node needs
};

struct Event : Object {
    unsigned flags = 0;
    size_t ticket = 0;
    bool recorded = false;
    double time = 0;  // milliseconds
    std::shared_ptr<Capture> capture;
    std::vector<Node*> tips;
};

struct Array : Object {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    CUdeviceptr address = 0;
    size_t row = 0, height = 1, bytes = 0;
};

struct Launch {
    Function* function = nullptr;
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
    unsigned shared = 0;
    bool cooperative = false;
    std::string parameters;
};

struct Fill {
    CUdeviceptr to = 0;
    size_t pitch = 0;
    unsigned value = 0, element = 1;
    size_t width = 0, height = 1;  // in elements
};

struct Call {
    CUhostFn function = nullptr;
    void* data = nullptr;
    CUstreamCallback callback = nullptr;
    CUstream stream = nullptr;
};

struct Record {
    Event* event = nullptr;
};

struct Wait {
    Event* event = nullptr;
};

struct Take {
    CUdeviceptr address = 0;
};

struct Drop {
    CUdeviceptr address = 0;
};

struct Child {
    std::shared_ptr<Graph> graph;
};

using Copy = CUDA_MEMCPY3D;
using Work = std::variant<std::monostate, Launch, Copy, Fill, Call, Record, Wait, Take, Drop, Child>;

Stream* stream_of(CUstream handle);  // null where the handle is not a stream
CUresult submit(CUstream handle, Work work, bool wait = false);
void enqueue(Stream* stream, std::shared_ptr<const Work> work);
CUresult finish(Stream* stream);  // waits until the stream is done
CUresult finish(size_t ticket);
CUresult finish_all();
void lose_broken_context();  // a reset does not repair a context that a kernel broke
bool is_done(size_t ticket);
bool is_finished(Stream* stream);
CUresult perform(const Work& work, Stream* stream);
CUresult run_copy(const Copy& copy);
CUresult run_fill(const Fill& fill);
void keep_printed(const std::string& text);

// Checks a launch and packs its parameters (kernels.cpp).
CUresult make_launch(Launch* launch, const CUlaunchConfig& config, const void* function, void** values,
                     void** extra);

// Capture of streams into graphs (graphs.cpp).
CUresult capture(Stream* stream, Work work);
CUresult refuse_capture(Stream* stream);  // breaks the capture that forbids a wait for this stream
CUresult refuse_captures(bool all);       // breaks a capture that forbids unsafe calls, or any capture
CUresult join_capture(Stream* stream, Event* event);

// ---- Memory ----

enum class Kind { Device, Pinned, Managed, Array, Mapped };

struct Block {
    CUdeviceptr start = 0;
    size_t size = 0;
    Kind kind = Kind::Device;
    unsigned flags = 0;
    char* host = nullptr;        // where the program's own pages were, for Kind::Mapped
    size_t begin = 0, room = 0;  // the part of the arena that it takes
    bool live = true;            // false: a graph owns the address, and has not allocated it
    bool graph = false;
};

CUresult allocate(CUdeviceptr* out, size_t size, Kind kind, unsigned flags = 0);
CUresult release(CUdeviceptr address);
CUresult map_host(void* pages, size_t size, unsigned flags);
CUresult unmap_host(void* pages);
void reserve_for_graph(CUdeviceptr address);  // it is allocated when a node of the graph runs
void wake(CUdeviceptr address, bool live);    // a graph allocates or frees its memory
void release_all();
bool find_block(CUdeviceptr address, Block* out);
CUdeviceptr canonical(const void* pointer);  // the arena's address of registered host memory
bool in_arena(CUdeviceptr address);
bool is_valid(CUdeviceptr address, size_t size);
size_t used_memory();

Copy with_pitches(Copy copy);  // with those that the program left to be derived
bool is_valid_copy(const Copy& copy);
bool is_valid_fill(const Fill& fill);
bool is_pageable(const Copy& copy);
bool is_inside_device(const Copy& copy);  // the host need not wait for such a copy

// Maps the arena at the first address of the list that is free; returns its base, 0 where none is.
size_t open_arena(int arena, int mask, size_t size, size_t reserved, bool check,
                  const std::string& addresses);

}  // namespace standin
