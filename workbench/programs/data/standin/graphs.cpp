// Graphs: captured from streams or built node by node, and launched as work of a stream.
#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "core.h"

using namespace standin;

namespace standin {

struct Node : Object {
    Graph* graph = nullptr;
    std::shared_ptr<const Work> work;
    std::vector<Node*> needs;
    const Node* original = nullptr;  // the node that this one is a clone of
    std::vector<void*> values;       // the parameters of a kernel, as the program may ask for them
};

// Something of the program that is destroyed when neither the program nor a graph refers to it.
struct UserObject : Object {
    std::shared_ptr<void> held;
    unsigned count = 0;  // references of the program
};

struct Graph : Object {
    std::vector<std::unique_ptr<Node>> nodes;
    std::multimap<UserObject*, std::shared_ptr<void>> kept;
};

struct Capture {
    Graph* graph = nullptr;
    Stream* origin = nullptr;
    unsigned long long id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;
    bool broken = false;
    std::set<Stream*> streams;
};

}  // namespace standin

namespace {

struct Exec : Object {
    Graph* graph = nullptr;
    cuuint64_t flags = 0;
};

std::recursive_mutex mutex;
using Lock = std::unique_lock<std::recursive_mutex>;

std::set<Capture*>& captures() {
    static auto* made = new std::set<Capture*>;
    return *made;
}

template <class Handle, class T>
Handle to(T* object) {
    return reinterpret_cast<Handle>(static_cast<Object*>(object));
}

Node* add_node(Graph* graph, Work work, std::vector<Node*> needs) {
    Lock lock(mutex);
    auto node = std::make_unique<Node>();
    node->graph = graph, node->needs = std::move(needs);
    node->work = std::make_shared<const Work>(std::move(work));
    add_handle(node.get());
    graph->nodes.push_back(std::move(node));
    return graph->nodes.back().get();
}

// The nodes in an order in which each follows the ones that it needs.
void visit(Node* node, std::set<Node*>* seen, std::vector<Node*>* order) {
    if (!seen->insert(node).second) return;
    for (Node* need : node->needs) visit(need, seen, order);
    order->push_back(node);
}

std::vector<Node*> ordered(const Graph& graph) {
    std::set<Node*> seen;
    std::vector<Node*> order;
    for (auto& node : graph.nodes) visit(node.get(), &seen, &order);
    return order;
}

Graph* clone(const Graph& graph) {
    auto* copy = new Graph;
    add_handle(copy);
    std::map<const Node*, Node*> made;
    for (Node* node : ordered(graph)) {
        std::vector<Node*> needs;
        for (Node* need : node->needs) needs.push_back(made[need]);
        made[node] = add_node(copy, *node->work, needs);
        made[node]->original = node;
    }
    copy->kept = graph.kept;
    return copy;
}

void destroy(Graph* graph) {
    for (auto& node : graph->nodes) drop_handle(node.get());
    drop_handle(graph);
    delete graph;
}

Node* twin_of(const Graph& graph, const Node* original) {
    for (auto& node : graph.nodes)
        if (node->original == original) return node.get();
    return nullptr;
}

// The node of an executable graph that belongs to a node of its graph.
Node* inner(CUgraphExec handle, CUgraphNode node) {
    auto* exec = as<Exec>(handle);
    return exec ? twin_of(*exec->graph, as<Node>(node)) : nullptr;
}

void launch_nodes(const Graph& graph, Stream* stream) {
    for (Node* node : ordered(graph)) {
        if (std::holds_alternative<std::monostate>(*node->work)) continue;
        auto* child = std::get_if<Child>(node->work.get());
        if (child)
            launch_nodes(*child->graph, stream);
        else
            enqueue(stream, node->work);
    }
}

// A child keeps a copy of its graph, as long as the program runs.
Child child_of(const Graph& graph) {
    return {std::shared_ptr<Graph>(clone(graph), [](Graph*) {})};
}

bool is_unsafe(const Capture& capture) {
    bool same = capture.thread == std::this_thread::get_id();
    return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
           (capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && same);
}

// In the order of the alternatives of Work.
CUgraphNodeType type_of(const Node& node) {
    static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_EMPTY,      CU_GRAPH_NODE_TYPE_KERNEL,
                                            CU_GRAPH_NODE_TYPE_MEMCPY,     CU_GRAPH_NODE_TYPE_MEMSET,
                                            CU_GRAPH_NODE_TYPE_HOST,       CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                                            CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                            CU_GRAPH_NODE_TYPE_MEM_FREE,   CU_GRAPH_NODE_TYPE_GRAPH};
    return types[node.work->index()];
}

}  // namespace

// ---- Capture ----

CUresult standin::capture(Stream* stream, Work work) {
    Lock lock(mutex);
    auto& capture = *stream->capture;
    NEED(!capture.broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (auto* record = std::get_if<Record>(&work)) {
        record->event->capture = stream->capture;
        record->event->tips = stream->tips;
        return CUDA_SUCCESS;
    }
    stream->tips = {add_node(capture.graph, std::move(work), stream->tips)};
    return CUDA_SUCCESS;
}

CUresult standin::join_capture(Stream* stream, Event* event) {
    Lock lock(mutex);
    NEED(!event->capture->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(!stream->capture || stream->capture == event->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    NEED(captures().count(event->capture.get()), CUDA_ERROR_CAPTURED_EVENT);
    if (!stream->capture) stream->tips.clear();
    stream->capture = event->capture;
    stream->capture->streams.insert(stream);
    for (Node* tip : event->tips)
        if (!std::count(stream->tips.begin(), stream->tips.end(), tip)) stream->tips.push_back(tip);
    return CUDA_SUCCESS;
}

static CUresult broken(Capture* capture, CUresult code) {
    capture->broken = true;
    return code;
}

CUresult standin::refuse_capture(Stream* stream) {
    Lock lock(mutex);
    if (stream->capture) return broken(stream->capture.get(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (Capture* capture : captures())
        if (stream == stream_of(nullptr) && !(capture->origin->flags & CU_STREAM_NON_BLOCKING))
            return broken(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return CUDA_SUCCESS;
}

CUresult standin::refuse_captures(bool all) {
    Lock lock(mutex);
    for (Capture* capture : captures())
        if (all || is_unsafe(*capture)) return broken(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_SUCCESS;
}

API cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
    TRY(ready());
    Lock lock(mutex);
    auto* stream = as<Stream>(handle);
    NEED(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    NEED(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    static unsigned long long number = 0;
    auto capture = std::make_shared<Capture>();
    capture->graph = new Graph, capture->origin = stream, capture->id = ++number, capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams.insert(stream);
    add_handle(capture->graph);
    captures().insert(capture.get());
    stream->capture = capture;
    stream->tips.clear();
    return CUDA_SUCCESS;
}

// Whether each node leads to the end of the stream that began the capture.
static bool is_joined(const Capture& capture) {
    std::set<Node*> seen;
    std::vector<Node*> order;
    for (Node* tip : capture.origin->tips) visit(tip, &seen, &order);
    return order.size() == capture.graph->nodes.size();
}

API cuStreamEndCapture(CUstream handle, CUgraph* out) {
    TRY(ready());
    Lock lock(mutex);
    STREAM(handle);
    auto capture = stream->capture;
    *out = nullptr;
    NEED(capture, CUDA_ERROR_ILLEGAL_STATE);
    NEED(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CUresult code = is_joined(*capture) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (capture->broken) code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    captures().erase(capture.get());
    for (Stream* joined : capture->streams) joined->capture = nullptr, joined->tips.clear();
    if (code)
        destroy(capture->graph);
    else
        *out = to<CUgraph>(capture->graph);
    return code;
}

FN(cuStreamIsCapturing, (CUstream handle, CUstreamCaptureStatus* out), Lock lock(mutex); STREAM(handle);
   *out = !stream->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
          : stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE)

API cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                              const CUgraphNode** needs, size_t* count) {
    TRY(cuStreamIsCapturing(handle, status));
    STREAM(handle);
    if (!stream->capture) return CUDA_SUCCESS;
    if (id) *id = stream->capture->id;
    if (graph) *graph = to<CUgraph>(stream->capture->graph);
    if (needs) *needs = reinterpret_cast<const CUgraphNode*>(stream->tips.data());
    if (count) *count = stream->tips.size();
    return CUDA_SUCCESS;
}

API cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                              const CUgraphNode** needs, const CUgraphEdgeData** edges, size_t* count) {
    if (edges) *edges = nullptr;
    return cuStreamGetCaptureInfo_v2(handle, status, id, graph, needs, count);
}

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    static thread_local CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::swap(now, *mode);
    return CUDA_SUCCESS;
}

// ---- Graphs and their nodes ----

#define GRAPH(handle)                \
    Lock lock(mutex);                \
    auto* graph = as<Graph>(handle); \
    VALID(graph)
#define NODE(handle)               \
    Lock lock(mutex);              \
    auto* node = as<Node>(handle); \
    VALID(node)
#define EXEC(handle)               \
    Lock lock(mutex);              \
    auto* exec = as<Exec>(handle); \
    VALID(exec)
#define NEEDS CUgraphNode *out, CUgraph handle, const CUgraphNode *needs, size_t count

static CUresult add(NEEDS, Work work) {
    TRY(ready());
    GRAPH(handle);
    std::vector<Node*> list;
    for (size_t i = 0; i < count; i++) {
        list.push_back(as<Node>(needs[i]));
        VALID(list.back());
    }
    Node* node = add_node(graph, std::move(work), std::move(list));
    if (out) *out = to<CUgraphNode>(node);
    return CUDA_SUCCESS;
}

// What a node does, by the parameters of each kind.
static CUresult work_of(const CUDA_KERNEL_NODE_PARAMS& p, Work* work) {
    CUlaunchConfig config{p.gridDimX,  p.gridDimY,       p.gridDimZ, p.blockDimX, p.blockDimY,
                          p.blockDimZ, p.sharedMemBytes, nullptr,    nullptr,     0};
    const void* function = p.func ? static_cast<const void*>(p.func) : p.kern;
    return make_launch(&work->emplace<Launch>(), config, function, p.kernelParams, p.extra);
}

static CUresult work_of(const CUDA_MEMCPY3D& p, Work* work) {
    *work = with_pitches(p);
    return is_valid_copy(std::get<Copy>(*work)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult work_of(const CUDA_MEMSET_NODE_PARAMS& p, Work* work) {
    *work = Fill{p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    return is_valid_fill(std::get<Fill>(*work)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult work_of(const CUDA_HOST_NODE_PARAMS& p, Work* work) {
    *work = Call{p.fn, p.userData, nullptr, nullptr};
    return CUDA_SUCCESS;
}

// Gives a node other parameters of the same kind; a kernel keeps how it is launched.
template <class Params>
static CUresult set(Node* node, const Params& params) {
    Work work;
    TRY(work_of(params, &work));
    VALID(node && node->work->index() == work.index());
    if (auto* launch = std::get_if<Launch>(&work)) {
        auto& before = std::get<Launch>(*node->work);
        launch->cooperative = before.cooperative;
        std::copy_n(before.cluster, 3, launch->cluster);
    }
    node->work = std::make_shared<const Work>(std::move(work));
    return CUDA_SUCCESS;
}

// Nodes of a kind have parameters when they are added, in a graph, and in an executable graph.
#define NODES(kind, type, ...)                                                                             \
    API cuGraphAdd##kind##Node(NEEDS, const type* params __VA_ARGS__) {                                    \
        Work work;                                                                                         \
        TRY(ready());                                                                                      \
        TRY(work_of(*params, &work));                                                                      \
        return add(out, handle, needs, count, std::move(work));                                            \
    }                                                                                                      \
    FN(cuGraph##kind##NodeSetParams, (CUgraphNode handle, const type* params), NODE(handle);               \
       return set(node, *params))                                                                          \
    FN(cuGraphExec##kind##NodeSetParams, (CUgraphExec exec, CUgraphNode handle, const type* p __VA_ARGS__), \
       NODE(handle);                                                                                       \
       return set(inner(exec, handle), *p))
#define CONTEXT , CUcontext

NODES(Kernel, CUDA_KERNEL_NODE_PARAMS)
NODES(Memcpy, CUDA_MEMCPY3D, CONTEXT)
NODES(Memset, CUDA_MEMSET_NODE_PARAMS, CONTEXT)
NODES(Host, CUDA_HOST_NODE_PARAMS)

FN(cuGraphCreate, (CUgraph * out, unsigned), give(out, new Graph))
FN(cuGraphDestroy, (CUgraph handle), GRAPH(handle); destroy(graph))

#define USER_OBJECT(handle)                  \
    auto* object = as<UserObject>(handle);   \
    HANDLE(object)

static CUresult let_go(UserObject* object, unsigned count) {
    VALID(count && count <= object->count);
    if (!(object->count -= count)) object->held = nullptr;
    return CUDA_SUCCESS;
}

API cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned count, unsigned) {
    TRY(ready());
    VALID(out && destroy && count);
    auto* object = new UserObject;
    object->held = {data, destroy}, object->count = count;
    return give(out, object);
}

FN(cuUserObjectRetain, (CUuserObject handle, unsigned count), USER_OBJECT(handle);
   VALID(count && object->held); object->count += count)
FN(cuUserObjectRelease, (CUuserObject handle, unsigned count), USER_OBJECT(handle);
   return let_go(object, count))
FN(cuGraphRetainUserObject, (CUgraph handle, CUuserObject user, unsigned count, unsigned flags), GRAPH(handle);
   USER_OBJECT(user); VALID(count && object->held);
   for (unsigned i = 0; i < count; i++) graph->kept.emplace(object, object->held);
   return flags & CU_GRAPH_USER_OBJECT_MOVE ? let_go(object, count) : CUDA_SUCCESS)
FN(cuGraphReleaseUserObject, (CUgraph handle, CUuserObject user, unsigned count), GRAPH(handle);
   USER_OBJECT(user); VALID(count && count <= graph->kept.count(object));
   while (count--) graph->kept.erase(graph->kept.find(object)))

FN(cuGraphClone, (CUgraph * out, CUgraph handle), GRAPH(handle); *out = to<CUgraph>(clone(*graph)))
FN(cuGraphNodeFindInClone, (CUgraphNode * out, CUgraphNode original, CUgraph handle), GRAPH(handle);
   Node* twin = twin_of(*graph, as<Node>(original)); VALID(twin); *out = to<CUgraphNode>(twin))

API cuGraphAddEmptyNode(NEEDS) { return add(out, handle, needs, count, std::monostate{}); }

// Nodes with one parameter.
#define ADD(kind, parameter, valid, work)              \
    API cuGraphAdd##kind##Node(NEEDS, parameter) {     \
        VALID(valid);                                  \
        return add(out, handle, needs, count, work);   \
    }

ADD(ChildGraph, CUgraph child, as<Graph>(child), child_of(*as<Graph>(child)))
ADD(EventRecord, CUevent event, as<Event>(event), Record{as<Event>(event)})
ADD(EventWait, CUevent event, as<Event>(event), Wait{as<Event>(event)})
ADD(MemFree, CUdeviceptr address, true, Drop{address})

// The address is known at once; the memory is allocated when the node runs.
API cuGraphAddMemAllocNode(NEEDS, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
    TRY(ready());
    TRY(allocate(&params->dptr, params->bytesize, Kind::Device));
    reserve_for_graph(params->dptr);
    return add(out, handle, needs, count, Take{params->dptr});
}

API cuGraphDestroyNode(CUgraphNode handle) {
    NODE(handle);
    auto& nodes = node->graph->nodes;
    for (auto& other : nodes)
        other->needs.erase(std::remove(other->needs.begin(), other->needs.end(), node), other->needs.end());
    drop_handle(node);
    nodes.erase(std::find_if(nodes.begin(), nodes.end(), [&](auto& other) { return other.get() == node; }));
    return CUDA_SUCCESS;
}

// Lists handles: as many as there is room for, or how many there are.
static CUresult list(const std::vector<Node*>& nodes, CUgraphNode* out, size_t* count) {
    size_t room = out ? *count : 0;
    for (size_t i = 0; i < room; i++) out[i] = i < nodes.size() ? to<CUgraphNode>(nodes[i]) : nullptr;
    *count = out ? std::min(room, nodes.size()) : nodes.size();
    return CUDA_SUCCESS;
}

FN(cuGraphNodeGetType, (CUgraphNode handle, CUgraphNodeType* out), NODE(handle); *out = type_of(*node))
FN(cuGraphGetNodes, (CUgraph handle, CUgraphNode* out, size_t* count), GRAPH(handle);
   list(ordered(*graph), out, count))
FN(cuGraphNodeGetDependencies_v2, (CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData*, size_t* count),
   NODE(handle);
   list(node->needs, out, count))

API cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
    GRAPH(handle);
    std::vector<Node*> roots;
    for (auto& node : graph->nodes)
        if (node->needs.empty()) roots.push_back(node.get());
    return list(roots, out, count);
}

API cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* target, CUgraphEdgeData* data,
                       size_t* count) {
    GRAPH(handle);
    std::vector<Node*> first, second;
    for (auto& node : graph->nodes)
        for (Node* need : node->needs) first.push_back(need), second.push_back(node.get());
    if (data && from) memset(data, 0, std::min(*count, first.size()) * sizeof *data);
    size_t room = *count;
    list(first, from, count);
    return target ? list(second, target, &room) : CUDA_SUCCESS;
}

API cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData*, size_t* count) {
    NODE(handle);
    std::vector<Node*> followers;
    for (auto& other : node->graph->nodes)
        if (std::count(other->needs.begin(), other->needs.end(), node)) followers.push_back(other.get());
    return list(followers, out, count);
}

API cuGraphAddDependencies_v2(CUgraph, const CUgraphNode* from, const CUgraphNode* target,
                              const CUgraphEdgeData*, size_t count) {
    Lock lock(mutex);
    for (size_t i = 0; i < count; i++) {
        auto *need = as<Node>(from[i]), *node = as<Node>(target[i]);
        VALID(need && node);
        node->needs.push_back(need);
    }
    return CUDA_SUCCESS;
}

// ---- Parameters of nodes ----

API cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* out) {
    NODE(handle);
    auto* launch = std::get_if<Launch>(node->work.get());
    VALID(launch);
    node->values.clear();
    for (auto [offset, size] : launch->function->parameters)
        node->values.push_back(const_cast<char*>(&launch->parameters[offset]));
    const unsigned *g = launch->grid, *b = launch->block;
    *out = {to<CUfunction>(launch->function), g[0], g[1], g[2], b[0], b[1], b[2], launch->shared};
    out->kernelParams = node->values.data();
    return CUDA_SUCCESS;
}

// ---- Executable graphs ----

API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
    TRY(ready());
    GRAPH(handle);
    auto* exec = new Exec;
    exec->graph = clone(*graph), exec->flags = flags;
    return give(out, exec);
}

API cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return cuGraphInstantiateWithFlags(out, graph, params->flags);
}

FN(cuGraphExecGetFlags, (CUgraphExec handle, cuuint64_t* out), EXEC(handle); *out = exec->flags)
FN(cuGraphExecDestroy, (CUgraphExec handle), EXEC(handle); destroy(exec->graph); drop_handle(exec);
   delete exec)

API cuGraphLaunch(CUgraphExec handle, CUstream target) {
    TRY(ready());
    EXEC(handle);
    STREAM(target);
    if (stream->capture) return capture(stream, child_of(*exec->graph));
    launch_nodes(*exec->graph, stream);
    return CUDA_SUCCESS;
}

// Takes the parameters of a graph of the same shape.
API cuGraphExecUpdate(CUgraphExec handle, CUgraph source, CUgraphExecUpdateResultInfo* info) {
    TRY(ready());
    EXEC(handle);
    auto* graph = as<Graph>(source);
    VALID(graph && info);
    std::vector<Node*> ours = ordered(*exec->graph), theirs = ordered(*graph);
    bool same = ours.size() == theirs.size();
    for (size_t i = 0; same && i < ours.size(); i++)
        same = type_of(*ours[i]) == type_of(*theirs[i]) && ours[i]->needs.size() == theirs[i]->needs.size();
    *info = {};
    info->result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    NEED(same, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    for (size_t i = 0; i < ours.size(); i++) ours[i]->work = theirs[i]->work;
    return CUDA_SUCCESS;
}
