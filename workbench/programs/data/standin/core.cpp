// The connection to the emulator, the queue and its worker.
#include "core.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <sstream>
#include <thread>
#include <unordered_map>
#include <unordered_set>

namespace standin {
namespace {

// A connection that reads lines and payloads.
struct Channel {
    int socket = -1;
    std::string unread;

    bool send(const std::string& text) {
        for (size_t sent = 0; sent < text.size();) {
            ssize_t n = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            sent += n;
        }
        return true;
    }

    // Reads more; the first message of the emulator carries the two memories.
    bool receive(int* memories) {
        char data[65536], control[CMSG_SPACE(2 * sizeof(int))];
        iovec part{data, sizeof data};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        ssize_t n;
        do n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n <= 0) return false;
        unread.append(data, n);
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        if (memories && head && head->cmsg_type == SCM_RIGHTS)
            memcpy(memories, CMSG_DATA(head), 2 * sizeof(int));
        return true;
    }

    // A line without its end, and the payload that it announces.
    bool read(std::string* line, std::string* payload, int* memories = nullptr) {
        size_t end;
        while ((end = unread.find('\n')) == std::string::npos)
            if (!receive(memories)) return false;
        *line = unread.substr(0, end);
        unread.erase(0, end + 1);
        size_t mark = line->rfind(" @");
        if (mark == std::string::npos) return true;
        size_t length = strtoull(line->c_str() + mark + 2, nullptr, 10);
        line->resize(mark);
        while (unread.size() < length)
            if (!receive(nullptr)) return false;
        *payload = unread.substr(0, length);
        unread.erase(0, length);
        return true;
    }
};

struct Item {
    size_t ticket;
    Stream* stream;
    std::shared_ptr<const Work> work;
    std::function<void()> job;
};

struct State {
    std::recursive_mutex mutex;
    std::condition_variable_any changed;
    pid_t owner = 0;
    CUresult connection = CUDA_SUCCESS;
    Channel channel;
    Facts facts;
    std::deque<Item> queue;
    size_t issued = 0, finished = 0;
    std::string notes, printed;
    std::atomic<int> broken{0};  // the error of a context that a kernel broke
    int refused = 0;             // the error of one launch
    std::thread::id worker;
    std::unordered_set<const void*> handles;
    Stream* legacy = new Stream;
    size_t pending_blocking = 0, last_blocking = 0;
    size_t copying = 0;                     // copies of the host that run now
    bool launching = false, mixed = false;  // a kernel runs; a copy began while it did
    std::set<std::string> missing;
};

State& state() {
    static State* made = new State;  // never destroyed: programs call the driver while they exit
    return *made;
}

using Lock = std::unique_lock<std::recursive_mutex>;

bool is_worker() { return std::this_thread::get_id() == state().worker; }

std::string framed(const std::string& line, const std::string& payload) {
    if (payload.empty()) return line + "\n";
    return line + " @" + std::to_string(payload.size()) + "\n" + payload;
}

void read_facts(const std::string& text) {
    std::istringstream lines(text);
    Facts& facts = state().facts;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string key;
        words >> key;
        if (key == "name") facts.name = line.substr(line.find(' ') + 1);
        if (key == "memory") words >> facts.memory;
        int which = 0, value = 0;
        if (key == "attribute" && words >> which >> value) facts.attributes[which] = value;
    }
}

void finished_one(const Item& item) {
    State& s = state();
    Lock lock(s.mutex);
    s.finished = item.ticket;
    if (item.stream) {
        item.stream->pending--;
        if (!(item.stream->flags & CU_STREAM_NON_BLOCKING)) s.pending_blocking--;
    }
    s.changed.notify_all();
}

void break_context(CUresult code) {
    Lock lock(state().mutex);
    bool sticky = code >= 700 && code != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (sticky && !state().broken) state().broken = code;
    if (!sticky && !state().refused) state().refused = code;
}

// After an error of the context nothing runs, but callbacks of streams hear of it.
void run(const Item& item) {
    if (item.job) return item.job();
    if (state().broken && !std::holds_alternative<Call>(*item.work)) return;
    CUresult code = perform(*item.work, item.stream);
    if (code) break_context(code);
}

void work() {
    State& s = state();
    for (;;) {
        Item item{};
        std::string notes;
        {
            Lock lock(s.mutex);
            s.changed.wait(lock, [&] { return !s.queue.empty() || !s.notes.empty(); });
            notes.swap(s.notes);
            if (!s.queue.empty()) {
                item = std::move(s.queue.front());
                s.queue.pop_front();
            }
        }
        s.channel.send(notes);
        if (!item.ticket) continue;
        run(item);
        finished_one(item);
    }
}

void mark_recorded(Event* event, size_t ticket) {
    event->ticket = ticket;
    event->recorded = true;
    event->capture = nullptr;
    event->tips.clear();
}

size_t add(Stream* stream, std::shared_ptr<const Work> work, std::function<void()> job) {
    State& s = state();
    Lock lock(s.mutex);
    size_t ticket = ++s.issued;
    if (auto* record = work ? std::get_if<Record>(work.get()) : nullptr) mark_recorded(record->event, ticket);
    s.queue.push_back({ticket, stream, std::move(work), std::move(job)});
    if (stream) {
        stream->pending++;
        stream->last = ticket;
        if (!(stream->flags & CU_STREAM_NON_BLOCKING)) s.pending_blocking++, s.last_blocking = ticket;
    }
    s.changed.notify_all();
    return ticket;
}

// Work that nobody waited for is done before the process ends.
void drain() {
    State& s = state();
    if (s.owner != getpid() || is_worker()) return;
    size_t last = add(nullptr, nullptr, [] {});
    Lock lock(s.mutex);
    s.changed.wait(lock, [&] { return s.finished >= last; });
}

void start_worker() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(work);
    state().worker = thread.get_id();
    thread.detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CUresult open_socket(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address.sun_path) return CUDA_ERROR_NO_DEVICE;
    strcpy(address.sun_path, path);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address))
        return CUDA_ERROR_NO_DEVICE;
    state().channel.socket = made;
    return CUDA_SUCCESS;
}

CUresult greet() {
    std::string line, payload, word, addresses;
    int memories[2] = {-1, -1};
    size_t size = 0, reserved = 0;
    int check = 0;
    if (!state().channel.read(&line, &payload, memories)) return CUDA_ERROR_NO_DEVICE;
    std::istringstream words(line);
    words >> word >> size >> reserved >> check >> addresses;
    read_facts(payload);
    size_t base = open_arena(memories[0], memories[1], size, reserved, check, addresses);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    Reply reply = exchange("HELLO 1 " + std::to_string(getpid()) + " " + std::to_string(base),
                           std::string(path, length < 0 ? 0 : length));
    return reply.code;
}

CUresult open_connection() {
    const char* path = getenv("WORKBENCH_STANDIN");
    if (!path) return CUDA_ERROR_NO_DEVICE;
    CUresult code = open_socket(path);
    if (!code) code = greet();
    if (code) return code;
    start_worker();
    atexit(drain);
    return CUDA_SUCCESS;
}

// Streams wait for the legacy stream and it waits for them, but for those that were made not to.
bool is_idle(Stream* stream) {
    State& s = state();
    if (stream == s.legacy) return !s.pending_blocking;
    bool apart = stream->flags & CU_STREAM_NON_BLOCKING;
    return !stream->pending && (apart || !s.legacy->pending);
}

// Copies on an idle stream need not wait for the work of others: a kernel may wait for such a copy.
bool runs_now(const Work& work) {
    return std::holds_alternative<Copy>(work) || std::holds_alternative<Fill>(work) ||
           std::holds_alternative<Record>(work) || std::holds_alternative<Drop>(work);
}

// Writes what kernels printed, as a GPU does when the host waits for it.
void write_printed() {
    std::string text;
    {
        Lock lock(state().mutex);
        text.swap(state().printed);
    }
    if (!text.empty()) fwrite(text.data(), 1, text.size(), stdout);
}

CUresult outcome() {
    State& s = state();
    Lock lock(s.mutex);
    if (s.broken) return static_cast<CUresult>(s.broken.load());
    return static_cast<CUresult>(std::exchange(s.refused, 0));
}

}  // namespace

// ---- Handles ----

bool is_known(const void* handle) {
    Lock lock(state().mutex);
    return state().handles.count(handle);
}

void add_handle(Object* object) {
    Lock lock(state().mutex);
    state().handles.insert(object);
}

void drop_handle(Object* object) {
    Lock lock(state().mutex);
    state().handles.erase(object);
}

// ---- Connection ----

CUresult connected() {
    State& s = state();
    Lock lock(s.mutex);
    if (!s.owner) {
        s.owner = getpid();
        s.connection = open_connection();
    }
    return s.owner == getpid() ? s.connection : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult ready() {
    CUresult code = connected();
    return code ? code : static_cast<CUresult>(state().broken.load());
}

const Facts& facts() { return state().facts; }

int attribute(int which) {
    auto found = state().facts.attributes.find(which);
    return found == state().facts.attributes.end() ? 0 : found->second;
}

void tell(const std::string& line, const std::string& payload) {
    Lock lock(state().mutex);
    state().notes += framed(line, payload);
    state().changed.notify_all();
}

Reply exchange(const std::string& line, const std::string& payload) {
    State& s = state();
    std::string text, answer;
    {
        Lock lock(s.mutex);
        text.swap(s.notes);
    }
    Reply reply;
    text += framed(line, payload);
    if (!s.channel.send(text) || !s.channel.read(&answer, &reply.text)) {
        break_context(CUDA_ERROR_UNKNOWN);
        reply.code = CUDA_ERROR_UNKNOWN;
        return reply;
    }
    std::istringstream words(answer);
    std::string verdict;
    words >> verdict >> reply.number;
    if (verdict != "OK") reply.code = static_cast<CUresult>(reply.number);
    return reply;
}

Reply ask(const std::string& line, const std::string& payload) {
    if (is_worker()) return exchange(line, payload);
    Reply reply;
    size_t ticket = add(nullptr, nullptr, [&] { reply = exchange(line, payload); });
    State& s = state();
    Lock lock(s.mutex);
    s.changed.wait(lock, [&] { return s.finished >= ticket; });
    return reply;
}

extern "C" __attribute__((visibility("default"))) int standin_missing(const char* name) {
    if (!connected()) {
        Lock lock(state().mutex);
        if (state().missing.insert(name).second) tell(std::string("MISSING ") + name);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- The chain of calls ----

namespace {

bool is_own(const std::string& path) {
    size_t at = path.rfind('/');
    std::string name = path.substr(at == std::string::npos ? 0 : at + 1);
    return !name.compare(0, 10, "libcuda.so") || !name.compare(0, 12, "libcudart.so");
}

// `path offset` of an address, empty for the stand-in's own.
std::string described(void* address) {
    Dl_info info;
    link_map* map = nullptr;
    if (!dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return {};
    std::string path = map->l_name;
    if (path.empty()) {
        char own[4096];
        ssize_t length = readlink("/proc/self/exe", own, sizeof own);
        path.assign(own, length < 0 ? 0 : length);
    }
    if (is_own(path)) return {};
    char offset[32];
    snprintf(offset, sizeof offset, " %zx\n", reinterpret_cast<size_t>(address) - 1 - map->l_addr);
    return path + offset;
}

}  // namespace

std::string call_chain() {
    static auto* known = new std::unordered_map<void*, std::string>;
    void* frames[24];
    int count = backtrace(frames, 24), kept = 0;
    std::string chain;
    Lock lock(state().mutex);
    for (int i = 1; i < count && kept < 8; i++) {
        auto found = known->find(frames[i]);
        if (found == known->end()) found = known->emplace(frames[i], described(frames[i])).first;
        chain += found->second;
        kept += !found->second.empty();
    }
    return chain;
}

// ---- The queue ----

Stream* stream_of(CUstream handle) {
    bool fixed = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    return fixed ? state().legacy : as<Stream>(handle);
}

void enqueue(Stream* stream, std::shared_ptr<const Work> work) { add(stream, std::move(work), nullptr); }

CUresult submit(CUstream handle, Work work, bool wait) {
    Stream* stream = stream_of(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture && !wait) return capture(stream, std::move(work));
    if (CUresult code = wait ? refuse_capture(stream) : CUDA_SUCCESS) return code;
    CUresult code = CUDA_SUCCESS;
    State& s = state();
    Lock lock(s.mutex);
    if (runs_now(work) && is_idle(stream)) {
        if (auto* record = std::get_if<Record>(&work)) mark_recorded(record->event, 0);
        s.copying++, s.mixed |= s.launching;
        lock.unlock();
        code = perform(work, stream);
        lock.lock();
        s.copying--;
        s.changed.notify_all();
    } else {
        enqueue(stream, std::make_shared<const Work>(std::move(work)));
    }
    lock.unlock();
    return wait && !code ? finish(stream) : code;
}

CUresult finish(size_t ticket) {
    State& s = state();
    if (is_worker()) return CUDA_ERROR_NOT_PERMITTED;
    {
        Lock lock(s.mutex);
        s.changed.wait(lock, [&] { return s.finished >= ticket; });
    }
    write_printed();
    return outcome();
}

CUresult finish(Stream* stream) {
    State& s = state();
    size_t ticket;
    {
        Lock lock(s.mutex);
        ticket = stream == s.legacy ? s.last_blocking : stream->last;
    }
    return finish(ticket);
}

CUresult finish_all() {
    size_t ticket;
    {
        Lock lock(state().mutex);
        ticket = state().issued;
    }
    return finish(ticket);
}

void lose_broken_context() {
    if (state().broken) state().broken = CUDA_ERROR_DEVICE_UNAVAILABLE;
}

bool is_done(size_t ticket) {
    Lock lock(state().mutex);
    return state().finished >= ticket;
}

bool is_finished(Stream* stream) {
    Lock lock(state().mutex);
    return stream == state().legacy ? !state().pending_blocking : !stream->pending;
}

// ---- Work ----

namespace {

double now_ms() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

// The emulator remembers the memory before and after a launch. Copies that run now end before it, and it is
// told of those that begin meanwhile.
void begin_launch() {
    State& s = state();
    Lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !s.copying; });
    s.launching = true, s.mixed = false;
}

void end_launch() {
    State& s = state();
    Lock lock(s.mutex);
    s.launching = false;
    if (s.mixed) tell("MIXED");
}

CUresult run_launch(const Launch& launch, Stream* stream) {
    static size_t number = 0;  // the worker alone launches
    const unsigned *g = launch.grid, *b = launch.block, *c = launch.cluster;
    std::ostringstream line;
    line << "LAUNCH " << ++number << ' ' << launch.function->module->number << ' ' << launch.function->name
         << ' ' << g[0] << ' ' << g[1] << ' ' << g[2] << ' ' << b[0] << ' ' << b[1] << ' ' << b[2] << ' '
         << launch.shared << ' ' << launch.cooperative << ' ' << c[0] << ' ' << c[1] << ' ' << c[2] << ' '
         << (stream ? stream->number : 0);
    begin_launch();
    Reply reply = exchange(line.str(), launch.parameters);
    end_launch();
    if (!reply.code) keep_printed(reply.text);
    return reply.code;
}

CUresult run_call(const Call& call) {
    CUresult broken = static_cast<CUresult>(state().broken.load());
    if (call.callback)
        call.callback(call.stream, broken, call.data);
    else if (!broken)
        call.function(call.data);
    return CUDA_SUCCESS;
}

}  // namespace

void keep_printed(const std::string& text) {
    Lock lock(state().mutex);
    state().printed += text;
}

CUresult perform(const Work& work, Stream* stream) {
    if (auto* launch = std::get_if<Launch>(&work)) return run_launch(*launch, stream);
    if (auto* copy = std::get_if<Copy>(&work)) return run_copy(*copy);
    if (auto* fill = std::get_if<Fill>(&work)) return run_fill(*fill);
    if (auto* call = std::get_if<Call>(&work)) return run_call(*call);
    if (auto* record = std::get_if<Record>(&work)) record->event->time = now_ms();
    if (auto* take = std::get_if<Take>(&work)) wake(take->address, true);
    if (auto* drop = std::get_if<Drop>(&work)) return release(drop->address);
    return CUDA_SUCCESS;
}

}  // namespace standin
