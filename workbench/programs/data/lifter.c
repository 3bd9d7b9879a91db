/* One launch of one kernel, with all that it reads and writes: loaded by the CUDA driver itself
 * (CUDA_INJECTION64_PATH), as tracer.c is. Asked by variables of the environment:
 *
 *   WORKBENCH_LIFT          the folder that is written into
 *   WORKBENCH_LIFT_KERNEL   the kernel, by its name in the machine code
 *   WORKBENCH_LIFT_SHAPE    "gx gy gz bx by bz shared": only such launches count; empty: all
 *   WORKBENCH_LIFT_NUMBER   which of those, from 0 on
 *   WORKBENCH_LIFT_LIMIT    bytes of memory that may be kept
 *   WORKBENCH_LIFT_PLAIN    "0 2": arguments that point to plain data, which holds no address
 *
 * Just before the program's own launch: all work is waited for, memory is copied to files, the
 * kernel is launched by us, memory is copied again, put back, and the same once more to see
 * whether it comes out equal. Then memory is put back and the program goes on. Of a node of a
 * CUDA graph, the nodes before it are launched first, as a graph of their own.
 *
 * Files: a line of text each fact in "report", renamed to that when all is whole; "refused" holds
 * one sentence instead; "<pid>.seen" says at the end how many launches there were. */
#define _GNU_SOURCE
#include <cupti.h>

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (32u << 20)      /* copied at once */
#define SCANNED (1u << 20)     /* of a buffer that may hold addresses, so much is looked through */
#define MOST_BUFFERS 4096
#define MOST_ARGUMENTS 4096
#define MOST_POINTERS (1u << 20)
#define MOST_IMAGES 64
#define MAPPED (2u << 20)      /* memory is mapped in pieces of a multiple of this */
#define ALIGNED 256            /* a buffer begins at a multiple of this, as an allocation does */

/* --- the driver, by the names of its oldest entry points ------------------------------------ */

#define DRIVER(X)                                                                              \
  X(cuCtxSynchronize, "cuCtxSynchronize", (void))                                              \
  X(cuCtxGetDevice, "cuCtxGetDevice", (CUdevice *))                                            \
  X(cuDeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                               \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, CUdevice_attribute, CUdevice))       \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *, CUfunction_attribute, CUfunction))       \
  X(cuFuncGetModule, "cuFuncGetModule", (CUmodule *, CUfunction))                              \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2", (CUdeviceptr *, size_t *, CUmodule, const char *)) \
  X(cuPointerGetAttribute, "cuPointerGetAttribute",                                            \
    (void *, CUpointer_attribute, CUdeviceptr))                                                \
  X(cuMemcpyAsync, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream))              \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream))        \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream))  \
  X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned))                                  \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                         \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                    \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, CUstreamCaptureStatus *))           \
  X(cuStreamIsCapturing_ptsz, "cuStreamIsCapturing_ptsz", (CUstream, CUstreamCaptureStatus *)) \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",                    \
    (CUstreamCaptureMode *))                                                                   \
  X(cuLaunchKernel, "cuLaunchKernel",                                                          \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
     CUstream, void **, void **))                                                              \
  X(cuGetErrorName, "cuGetErrorName", (CUresult, const char **))

/* What only newer drivers have: absent is told where it is needed. */
#define NEWER(X)                                                                               \
  X(cuLaunchKernelEx, "cuLaunchKernelEx",                                                      \
    (const CUlaunchConfig *, CUfunction, void **, void **))                                    \
  X(cuFuncGetParamInfo, "cuFuncGetParamInfo", (CUfunction, size_t, size_t *, size_t *))        \
  X(cuKernelGetParamInfo, "cuKernelGetParamInfo", (CUkernel, size_t, size_t *, size_t *))      \
  X(cuKernelGetFunction, "cuKernelGetFunction", (CUfunction *, CUkernel))                      \
  X(cuFuncLoad, "cuFuncLoad", (CUfunction))                                                    \
  X(cuFuncGetName, "cuFuncGetName", (const char **, CUfunction))                               \
  X(cuKernelGetName, "cuKernelGetName", (const char **, CUkernel))                             \
  X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                \
    (CUmemGenericAllocationHandle *, void *))                                                  \
  X(cuMemRelease, "cuMemRelease", (CUmemGenericAllocationHandle))                              \
  X(cuGraphClone, "cuGraphClone", (CUgraph *, CUgraph))                                        \
  X(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                               \
  X(cuGraphGetNodes, "cuGraphGetNodes", (CUgraph, CUgraphNode *, size_t *))                    \
  X(cuGraphNodeGetType, "cuGraphNodeGetType", (CUgraphNode, CUgraphNodeType *))                \
  X(cuGraphNodeGetDependencies, "cuGraphNodeGetDependencies",                                  \
    (CUgraphNode, CUgraphNode *, size_t *))                                                    \
  X(cuGraphNodeFindInClone, "cuGraphNodeFindInClone", (CUgraphNode *, CUgraphNode, CUgraph))   \
  X(cuGraphDestroyNode, "cuGraphDestroyNode", (CUgraphNode))                                   \
  X(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", (CUgraphNode, CUgraph *))  \
  X(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2",                               \
    (CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2 *))                                               \
  X(cuGraphKernelNodeGetAttribute, "cuGraphKernelNodeGetAttribute",                            \
    (CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue *))                              \
  X(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams",                                  \
    (CUgraphNode, CUDA_MEMSET_NODE_PARAMS *))                                                  \
  X(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", (CUgraphNode, CUDA_MEMCPY3D *))  \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                         \
    (CUgraphExec *, CUgraph, unsigned long long))                                              \
  X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                   \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))

#define POINTER(name, symbol, parameters) static CUresult (*p_##name) parameters;
DRIVER(POINTER)
NEWER(POINTER)

/* --- what is asked for, and what is held ---------------------------------------------------- */

static const char *folder, *wanted;
static long shape[7], number;
static int has_shape;
static uint64_t limit;
static char plain[MOST_ARGUMENTS];

static pid_t owner;
static long seen, matching; /* launches of the kernel; those of the shape */
static int finished;        /* kept, or refused */
static int images_wanted = 1, graphs_known;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside; /* our own calls are none of the program's */

struct image { void *data; size_t size; };
static struct image images[MOST_IMAGES];
static unsigned image_count, images_left_out;

/* Of PTX, what fat binaries hold, packed as it is there. */
struct packed { const void *at; };
static struct packed *binaries;
static unsigned binary_count;

struct launch {
  CUfunction function;
  unsigned grid[3], block[3], shared, cluster[3];
  int cooperative;
  void **parameters, **extra;
};

struct argument { size_t offset, size; unsigned char *data; };

struct buffer {
  uint64_t start, end, low, scanned_from; /* `low`: the lowest address that was met in it */
  const char *kind, *symbol;
  int deep, scanned;
};

struct pointer { int in_buffer; unsigned index; uint64_t offset, value; unsigned target; };

struct memory {
  struct buffer buffers[MOST_BUFFERS];
  unsigned count;
  struct pointer *pointers;
  unsigned pointer_count, pointer_room;
};

static FILE *report;
static CUstream own;
static unsigned char *chunk, *other;

static void path_of(char *out, size_t size, const char *name) {
  snprintf(out, size, "%s/%s", folder, name);
}

/* The sentence for a user; the first one stands. */
static int refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int refuse(const char *format, ...) {
  char path[4096], part[4096];
  va_list words;
  path_of(path, sizeof path, "refused"), path_of(part, sizeof part, "refused.part");
  FILE *file = access(path, F_OK) ? fopen(part, "w") : NULL;
  if (file) {
    va_start(words, format);
    vfprintf(file, format, words);
    va_end(words);
    fclose(file);
    rename(part, path);
  }
  return 0;
}

static int failed(const char *what, CUresult result) {
  const char *name = NULL;
  if (p_cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "an error";
  return refuse("%s failed: %s", what, name);
}

#define DO(what, call)                            \
  do {                                            \
    CUresult result_ = (call);                    \
    if (result_ != CUDA_SUCCESS) return failed(what, result_); \
  } while (0)

/* --- images: cubins that hold the kernel, PTX of fat binaries -------------------------------- */

static const Elf64_Shdr *sections_of(const struct image *image, unsigned *count) {
  const Elf64_Ehdr *head = image->data;
  if (image->size < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG)) return NULL;
  if (head->e_shoff > image->size || head->e_shentsize != sizeof(Elf64_Shdr)) return NULL;
  if ((image->size - head->e_shoff) / sizeof(Elf64_Shdr) < head->e_shnum) return NULL;
  *count = head->e_shnum;
  return (const Elf64_Shdr *)((const char *)image->data + head->e_shoff);
}

/* Each symbol of an image: its type and name, until `visit` says that it has enough. */
static int each_symbol(const struct image *image,
                       int (*visit)(unsigned type, const char *name, uint64_t size, void *more),
                       void *more) {
  unsigned count = 0;
  const Elf64_Shdr *sections = sections_of(image, &count);
  for (unsigned i = 0; i < count; i++) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= count) continue;
    const Elf64_Shdr *table = &sections[i], *texts = &sections[table->sh_link];
    if (table->sh_offset > image->size || table->sh_size > image->size - table->sh_offset) continue;
    if (texts->sh_offset > image->size || texts->sh_size > image->size - texts->sh_offset) continue;
    const Elf64_Sym *symbols = (const void *)((const char *)image->data + table->sh_offset);
    const char *text = (const char *)image->data + texts->sh_offset;
    for (size_t n = 0; n < table->sh_size / sizeof *symbols; n++)
      if (symbols[n].st_name < texts->sh_size &&
          memchr(text + symbols[n].st_name, 0, texts->sh_size - symbols[n].st_name) &&
          visit(ELF64_ST_TYPE(symbols[n].st_info), text + symbols[n].st_name, symbols[n].st_size,
                more))
        return 1;
  }
  return 0;
}

static int is_wanted(unsigned type, const char *name, uint64_t size, void *more) {
  (void)size, (void)more;
  return type == STT_FUNC && !strcmp(name, wanted);
}

static void keep_image(const char *cubin, size_t size) {
  struct image here = {(void *)cubin, size};
  if (!cubin || !memmem(cubin, size, wanted, strlen(wanted))) return;
  if (!each_symbol(&here, is_wanted, NULL)) return;
  for (unsigned i = 0; i < image_count; i++)
    if (images[i].size == size && !memcmp(images[i].data, cubin, size)) return;
  if (image_count == MOST_IMAGES || !(here.data = malloc(size))) {
    images_left_out++;
    return;
  }
  memcpy(here.data, cubin, size);
  images[image_count++] = here;
}

/* What is handed to the driver: PTX as text, or a fat binary, whose memory is the program's. */
static void keep_binary(const void *code) {
  uint32_t magic;
  if (!code) return;
  memcpy(&magic, code, sizeof magic);
  if (magic == 0x466243b1) memcpy(&code, (const char *)code + 8, sizeof code); /* a wrapper */
  memcpy(&magic, code, sizeof magic);
  if (magic != 0xba55ed50) {
    for (int i = 0; i < 4; i++) /* neither a cubin nor anything else that is no text */
      if (((const unsigned char *)code)[i] < 9 || ((const unsigned char *)code)[i] > 126) return;
    if (!strstr(code, ".version") || !strstr(code, wanted)) return;
    char path[4096];
    path_of(path, sizeof path, "text.ptx");
    FILE *file = fopen(path, "wb");
    if (file) fputs(code, file), fclose(file);
    return;
  }
  if (!(binary_count & (binary_count + 1))) {
    void *more = realloc(binaries, (2 * binary_count + 2) * sizeof *binaries);
    if (!more) return;
    binaries = more;
  }
  binaries[binary_count++].at = code;
}

/* What may be read now: what a program freed meanwhile is not touched. */
static struct range { uintptr_t from, to; } *readable;
static size_t readable_count;

static void find_readable(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4400], rights[8];
  unsigned long from, to;
  while (maps && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || *rights != 'r') continue;
    if (readable_count && readable[readable_count - 1].to == from) {
      readable[readable_count - 1].to = to;
      continue;
    }
    if (!(readable_count & (readable_count + 1))) {
      void *more = realloc(readable, (2 * readable_count + 2) * sizeof *readable);
      if (!more) break;
      readable = more;
    }
    readable[readable_count++] = (struct range){from, to};
  }
  if (maps) fclose(maps);
}

static int is_readable(const void *at, size_t size) {
  uintptr_t from = (uintptr_t)at;
  for (size_t i = 0; i < readable_count; i++)
    if (readable[i].from <= from && from < readable[i].to) return size <= readable[i].to - from;
  return 0;
}

/* All PTX of the fat binaries, packed, one after the other, each with its header. */
static void write_ptx(void) {
  char path[4096];
  size_t written = 0;
  path_of(path, sizeof path, "packed.ptx");
  FILE *file = fopen(path, "wb");
  find_readable();
  for (unsigned i = 0; file && i < binary_count; i++) { /* from the one that was loaded last */
    const unsigned char *at = binaries[binary_count - 1 - i].at;
    uint64_t size, payload;
    uint16_t head, kind;
    uint32_t own_head;
    if (!is_readable(at, 16)) continue;
    memcpy(&head, at + 6, 2), memcpy(&size, at + 8, 8);
    if (size > (1ull << 32) || !is_readable(at, head + size)) continue;
    for (uint64_t place = head; place + 64 <= head + size; place += own_head + payload) {
      const unsigned char *entry = at + place;
      memcpy(&kind, entry, 2), memcpy(&own_head, entry + 4, 4), memcpy(&payload, entry + 8, 8);
      if (own_head < 64 || payload > head + size - place - own_head) break;
      if (kind != 1) continue;
      if ((written += own_head + payload) > (256u << 20)) break;
      fwrite(entry, 1, own_head + payload, file);
    }
  }
  if (file) fclose(file);
}

/* --- memory ---------------------------------------------------------------------------------- */

static int is_mapped(uint64_t at) {
  CUmemGenericAllocationHandle piece;
  if (!p_cuMemRetainAllocationHandle || !p_cuMemRelease) return 0;
  if (p_cuMemRetainAllocationHandle(&piece, (void *)(uintptr_t)at) != CUDA_SUCCESS) return 0;
  p_cuMemRelease(piece);
  return 1;
}

/* The buffer that an address lies in, which is added where it is live memory; -1: it is none. */
static int buffer_at(struct memory *m, uint64_t value, int deep) {
  if (value < 4096 || value >> 56) return -1; /* no system has an address there */
  for (unsigned i = 0; i < m->count; i++) {
    struct buffer *b = &m->buffers[i];
    if (value < b->start || value >= b->end) continue;
    if (value < b->low) b->low = value, b->scanned = 0;
    if (deep && !b->deep) b->deep = 1;
    return (int)i;
  }
  unsigned type = 0, managed = 0;
  uint64_t start = 0;
  size_t size = 0;
  if (p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, value) != CUDA_SUCCESS ||
      p_cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, value) !=
          CUDA_SUCCESS ||
      p_cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, value) != CUDA_SUCCESS)
    return -1;
  if (!start || !size || value < start || value >= start + size) return -1;
  p_cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, value);
  uint64_t end = start + size;
  /* Of memory that was mapped piece by piece the range is all that was reserved for it. */
  void *pool = NULL;
  p_cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, value);
  if (!pool && is_mapped(value)) {
    for (start = value - value % MAPPED; is_mapped(start - MAPPED);) start -= MAPPED;
    for (end = value - value % MAPPED + MAPPED; is_mapped(end);) end += MAPPED;
  }
  if (m->count == MOST_BUFFERS) return -2;
  m->buffers[m->count] = (struct buffer){
      start, end, value, 0,
      managed ? "managed" : type == CU_MEMORYTYPE_HOST ? "host" : "device", NULL, deep, 0};
  return (int)m->count++;
}

static uint64_t low_of(const struct buffer *b) {
  uint64_t low = b->low - b->low % ALIGNED;
  return low < b->start ? b->start : low;
}

static uint64_t size_of(const struct buffer *b) { return b->end - low_of(b); }

/* Addresses among bytes, by value: whole words that lie in live memory. */
static int look(struct memory *m, const unsigned char *data, uint64_t size, int in_buffer,
                unsigned index, uint64_t offset, int deep) {
  for (uint64_t at = 0; at + 8 <= size; at += 8) {
    uint64_t value;
    memcpy(&value, data + at, 8);
    if (value < 4096 || value >> 56) continue;
    int target = buffer_at(m, value, deep);
    if (target == -2) return refuse("it reaches more than %d allocations", MOST_BUFFERS);
    if (target < 0) continue;
    if (m->pointer_count == m->pointer_room) {
      unsigned room = m->pointer_room ? 2 * m->pointer_room : 1024;
      void *more = room <= MOST_POINTERS ? realloc(m->pointers, room * sizeof *m->pointers) : NULL;
      if (!more) return refuse("it reaches more than %u addresses in memory", MOST_POINTERS);
      m->pointers = more, m->pointer_room = room;
    }
    m->pointers[m->pointer_count++] =
        (struct pointer){in_buffer, index, offset + at, value, (unsigned)target};
  }
  return 1;
}

static int copy_out(void *to, uint64_t from, size_t size) {
  DO("copying memory", p_cuMemcpyDtoHAsync(to, from, size, own));
  DO("copying memory", p_cuStreamSynchronize(own));
  return 1;
}

/* Follow addresses in memory until no new ones are met. */
static int follow(struct memory *m) {
  for (int again = 1; again;) {
    again = 0;
    for (unsigned i = 0; i < m->count; i++) {
      struct buffer *b = &m->buffers[i];
      if (!b->deep || b->scanned) continue;
      uint64_t from = low_of(b), size = size_of(b) < SCANNED ? size_of(b) : SCANNED;
      unsigned kept = 0; /* what it was looked through for before begins further up */
      for (unsigned n = 0; n < m->pointer_count; n++)
        if (!m->pointers[n].in_buffer || m->pointers[n].index != i)
          m->pointers[kept++] = m->pointers[n];
      m->pointer_count = kept;
      b->scanned = 1, b->scanned_from = from, again = 1;
      unsigned char *bytes = malloc(size);
      if (!bytes) return refuse("there is not enough memory");
      int fine = copy_out(bytes, from, size) && look(m, bytes, size, 1, i, from, 1);
      free(bytes);
      if (!fine) return 0;
    }
  }
  return 1;
}

/* Each buffer to a file: `before-3`. */
static int save(const struct memory *m, const char *when) {
  for (unsigned i = 0; i < m->count; i++) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "%s-%u", when, i);
    path_of(path, sizeof path, name);
    FILE *file = fopen(path, "wb");
    if (!file) return refuse("no file can be written into %s", folder);
    uint64_t at = low_of(&m->buffers[i]), end = m->buffers[i].end;
    int fine = 1;
    for (size_t part; fine && at < end; at += part) {
      part = end - at < CHUNK ? end - at : CHUNK;
      fine = copy_out(chunk, at, part);
      if (fine && fwrite(chunk, 1, part, file) != part) fine = refuse("no space is left");
    }
    if (fclose(file) && fine) fine = refuse("no space is left");
    if (!fine) return 0;
  }
  return 1;
}

/* Compare memory with what was saved (`equal`), or put back what was saved where that is NULL. */
static int with_saved(const struct memory *m, const char *when, int *equal) {
  for (unsigned i = 0; i < m->count; i++) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "%s-%u", when, i);
    path_of(path, sizeof path, name);
    FILE *file = fopen(path, "rb");
    if (!file) return refuse("what was kept cannot be read back");
    uint64_t at = low_of(&m->buffers[i]), end = m->buffers[i].end;
    int fine = 1;
    for (size_t part; fine && at < end; at += part) {
      part = end - at < CHUNK ? end - at : CHUNK;
      if (fread(chunk, 1, part, file) != part) {
        fine = refuse("what was kept cannot be read back");
      } else if (equal) {
        fine = copy_out(other, at, part);
        if (fine && memcmp(chunk, other, part)) *equal = 0;
      } else {
        CUresult done = p_cuMemcpyHtoDAsync(at, chunk, part, own);
        if (done == CUDA_SUCCESS) done = p_cuStreamSynchronize(own);
        if (done != CUDA_SUCCESS) fine = failed("putting memory back", done);
      }
    }
    fclose(file);
    if (!fine) return 0;
  }
  return 1;
}

/* --- a launch ------------------------------------------------------------------------------ */

static int argument_info(CUfunction f, size_t index, size_t *offset, size_t *size) {
  if (p_cuFuncGetParamInfo && p_cuFuncGetParamInfo(f, index, offset, size) == CUDA_SUCCESS)
    return 1;
  return p_cuKernelGetParamInfo &&
         p_cuKernelGetParamInfo((CUkernel)f, index, offset, size) == CUDA_SUCCESS;
}

/* The arguments, their bytes copied; -1: they cannot be told. */
static int arguments_of(const struct launch *l, struct argument *out) {
  const unsigned char *block = NULL;
  int count = 0;
  for (void **word = l->extra; word && *word != CU_LAUNCH_PARAM_END; word += 2)
    if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER) block = word[1];
  if (!p_cuFuncGetParamInfo && !p_cuKernelGetParamInfo)
    return refuse("the driver is too old to tell its arguments (before CUDA 12.4)") - 1;
  for (size_t offset, size; argument_info(l->function, (size_t)count, &offset, &size); count++) {
    const unsigned char *data = l->parameters ? l->parameters[count] : block ? block + offset : NULL;
    if (count == MOST_ARGUMENTS || !data || !(out[count].data = malloc(size + 8)))
      return refuse("its arguments cannot be read") - 1;
    out[count].offset = offset, out[count].size = size;
    memcpy(out[count].data, data, size);
  }
  return count;
}

static int run(const struct launch *l) {
  if (l->cluster[0] || l->cooperative) {
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {0};
    memset(attributes, 0, sizeof attributes);
    if (!p_cuLaunchKernelEx) return refuse("the driver is too old to launch clusters");
    config.gridDimX = l->grid[0], config.gridDimY = l->grid[1], config.gridDimZ = l->grid[2];
    config.blockDimX = l->block[0], config.blockDimY = l->block[1];
    config.blockDimZ = l->block[2], config.sharedMemBytes = l->shared, config.hStream = own;
    config.attrs = attributes;
    if (l->cluster[0]) {
      attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[config.numAttrs].value.clusterDim.x = l->cluster[0];
      attributes[config.numAttrs].value.clusterDim.y = l->cluster[1];
      attributes[config.numAttrs++].value.clusterDim.z = l->cluster[2];
    }
    if (l->cooperative) {
      attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      attributes[config.numAttrs++].value.cooperative = 1;
    }
    DO("the launch", p_cuLaunchKernelEx(&config, l->function, l->parameters, l->extra));
  } else {
    DO("the launch",
       p_cuLaunchKernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                        l->block[2], l->shared, own, l->parameters, l->extra));
  }
  DO("the kernel", p_cuStreamSynchronize(own));
  return 1;
}

struct symbols { struct memory *memory; CUmodule module; unsigned lost; };

static int add_symbol(unsigned type, const char *name, uint64_t size, void *more) {
  struct symbols *s = more;
  CUdeviceptr at = 0;
  size_t bytes = 0;
  if (type != STT_OBJECT || !size || !*name || *name == '.') return 0; /* .nv.…: the compiler's */
  for (unsigned i = 0; i < s->memory->count; i++)
    if (s->memory->buffers[i].symbol && !strcmp(s->memory->buffers[i].symbol, name)) return 0;
  if (p_cuModuleGetGlobal(&at, &bytes, s->module, name) != CUDA_SUCCESS || !bytes) {
    s->lost++;
    return 0;
  }
  if (s->memory->count == MOST_BUFFERS) return 1;
  s->memory->buffers[s->memory->count++] =
      (struct buffer){at, at + bytes, at, 0, "symbol", strdup(name), 1, 0};
  return 0;
}

static int write_images(CUfunction f) {
  for (unsigned i = 0; i < image_count; i++) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "image-%u", i);
    path_of(path, sizeof path, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(images[i].data, 1, images[i].size, file) != images[i].size ||
        fclose(file))
      return refuse("no space is left");
  }
  int registers = -1;
  p_cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
  fprintf(report, "images %u %d\n", image_count, registers);
  if (images_left_out) fprintf(report, "note %u more images hold the kernel\n", images_left_out);
  return 1;
}

static uint64_t total_of(const struct memory *m) {
  uint64_t total = 0;
  for (unsigned i = 0; i < m->count; i++) total += size_of(&m->buffers[i]);
  return total;
}

static int fits(const struct memory *m) {
  uint64_t total = total_of(m), largest = 0;
  for (unsigned i = 0; i < m->count; i++)
    if (size_of(&m->buffers[i]) > largest) largest = size_of(&m->buffers[i]);
  if (total <= limit) return 1;
  return refuse("its buffers (%u) hold %llu bytes (the largest %llu), more than the %llu that are "
                "kept",
                m->count, (unsigned long long)total, (unsigned long long)largest,
                (unsigned long long)limit);
}

static void write_facts(const struct launch *l, const struct memory *m,
                        const struct argument *arguments, int count) {
  CUdevice device = 0;
  char name[256] = "";
  int major = 0, minor = 0;
  p_cuCtxGetDevice(&device);
  p_cuDeviceGetName(name, sizeof name, device);
  p_cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  p_cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  fprintf(report, "device %d.%d %s\n", major, minor, name);
  fprintf(report, "shape %u %u %u %u %u %u %u\n", l->grid[0], l->grid[1], l->grid[2], l->block[0],
          l->block[1], l->block[2], l->shared);
  if (l->cluster[0])
    fprintf(report, "cluster %u %u %u\n", l->cluster[0], l->cluster[1], l->cluster[2]);
  if (l->cooperative) fprintf(report, "cooperative\n");
  for (int i = 0; i < count; i++) {
    fprintf(report, "argument %zu %zu ", arguments[i].offset, arguments[i].size);
    for (size_t n = 0; n < arguments[i].size; n++) fprintf(report, "%02x", arguments[i].data[n]);
    fprintf(report, "\n");
  }
  for (unsigned i = 0; i < m->count; i++) {
    const struct buffer *b = &m->buffers[i];
    fprintf(report, "buffer %s %llu %llu %s\n", b->kind, (unsigned long long)low_of(b),
            (unsigned long long)size_of(b), b->symbol ? b->symbol : "-");
    if (b->deep && size_of(b) > SCANNED)
      fprintf(report, "scanned %u %u\n", i, SCANNED);
  }
  for (unsigned i = 0; i < m->pointer_count; i++) {
    const struct pointer *p = &m->pointers[i];
    uint64_t base = p->in_buffer ? low_of(&m->buffers[p->index]) : 0;
    fprintf(report, "pointer %s %u %llu %u %llu\n", p->in_buffer ? "buffer" : "argument", p->index,
            (unsigned long long)(p->offset - base), p->target,
            (unsigned long long)(p->value - low_of(&m->buffers[p->target])));
  }
}

static int lift(const struct launch *l) {
  static struct argument arguments[MOST_ARGUMENTS];
  static struct memory m;
  int count = arguments_of(l, arguments), equal = 1;
  if (count < 0) return 0;
  CUmodule module = NULL;
  CUfunction f = l->function;
  if (p_cuFuncLoad) p_cuFuncLoad(f); /* its module may not be there before its first launch */
  if (p_cuFuncGetModule(&module, f) != CUDA_SUCCESS && p_cuKernelGetFunction &&
      p_cuKernelGetFunction(&f, (CUkernel)l->function) == CUDA_SUCCESS)
    p_cuFuncGetModule(&module, f);
  if (!image_count) return refuse("its machine code was not handed to the tracer");
  struct symbols s = {&m, module, 0};
  for (unsigned i = 0; module && i < image_count; i++) each_symbol(&images[i], add_symbol, &s);
  if (s.lost) fprintf(report, "note symbols of the module that cannot be reached by name: %u\n", s.lost);
  for (int i = 0; i < count; i++)
    if (!look(&m, arguments[i].data, arguments[i].size, 0, (unsigned)i, 0, !plain[i])) return 0;
  if (!follow(&m) || !fits(&m)) return 0;
  write_facts(l, &m, arguments, count);
  if (!write_images(f)) return 0;
  write_ptx();
  if (!save(&m, "before") || !run(l) || !save(&m, "after")) return 0;
  if (!with_saved(&m, "before", NULL) || !run(l) || !with_saved(&m, "after", &equal)) return 0;
  fprintf(report, "repeat %d\n", equal);
  return with_saved(&m, "before", NULL);
}

/* What all of it happens in: nothing of the program runs meanwhile, as far as it uses CUDA. */
static void attempt(const struct launch *l, int (*work)(const struct launch *, void *),
                    void *more) {
  char part[4096], path[4096];
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  path_of(part, sizeof part, "report.part"), path_of(path, sizeof path, "report");
  finished = 1;
  report = fopen(part, "wx"); /* another process may have it already */
  if (!report) return;
  inside = 1;
  p_cuThreadExchangeStreamCaptureMode(&mode);
  chunk = malloc(CHUNK), other = malloc(CHUNK);
  CUresult done = p_cuCtxSynchronize();
  if (done == CUDA_SUCCESS) done = p_cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
  int fine = 0;
  if (!chunk || !other) refuse("there is not enough memory");
  else if (done != CUDA_SUCCESS) failed("waiting for the program's work", done);
  else fine = work(l, more);
  fprintf(report, "launch %ld\nend\n", seen);
  if (fclose(report)) fine = refuse("no space is left");
  if (own) p_cuStreamDestroy(own), own = NULL;
  free(chunk), free(other);
  p_cuThreadExchangeStreamCaptureMode(&mode);
  inside = images_wanted = 0;
  if (fine) rename(part, path);
}

static int plain_launch(const struct launch *l, void *more) { (void)more; return lift(l); }

/* Count a launch; whether it is the one. */
static int is_the_one(const struct launch *l) {
  unsigned own_shape[7] = {l->grid[0],  l->grid[1],  l->grid[2], l->block[0],
                           l->block[1], l->block[2], l->shared};
  seen++;
  for (int i = 0; has_shape && i < 7; i++)
    if ((long)own_shape[i] != shape[i]) return 0;
  return matching++ == number;
}

/* --- CUDA graphs ------------------------------------------------------------------------------ */

struct graph { CUgraphExec exec; CUgraph copy; int changed; };
static struct graph *graphs;
static unsigned graph_count;

static CUgraphNode *nodes_of(CUgraph graph, size_t *count) {
  CUgraphNode *nodes = NULL;
  *count = 0;
  if (p_cuGraphGetNodes(graph, NULL, count) != CUDA_SUCCESS || !*count) return NULL;
  nodes = calloc(*count, sizeof *nodes);
  if (nodes && p_cuGraphGetNodes(graph, nodes, count) != CUDA_SUCCESS) free(nodes), nodes = NULL;
  return nodes;
}

static int kernel_of(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p) {
  CUgraphNodeType type;
  memset(p, 0, sizeof *p);
  return p_cuGraphNodeGetType(node, &type) == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_KERNEL &&
         p_cuGraphKernelNodeGetParams(node, p) == CUDA_SUCCESS;
}

static int is_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
  const char *name = NULL;
  if (p->func && p_cuFuncGetName && p_cuFuncGetName(&name, p->func) == CUDA_SUCCESS && name)
    return !strcmp(name, wanted);
  return p->kern && p_cuKernelGetName && p_cuKernelGetName(&name, p->kern) == CUDA_SUCCESS &&
         name && !strcmp(name, wanted);
}

/* Whether the kernel is among a graph's nodes; 2: in a graph inside of it. */
static int holds(CUgraph graph) {
  size_t count;
  int found = 0;
  CUgraphNode *nodes = nodes_of(graph, &count);
  for (size_t i = 0; nodes && i < count && found != 1; i++) {
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    CUgraphNodeType type;
    CUgraph child;
    if (kernel_of(nodes[i], &p)) {
      if (is_kernel(&p)) found = 1;
    } else if (p_cuGraphNodeGetType(nodes[i], &type) == CUDA_SUCCESS &&
               type == CU_GRAPH_NODE_TYPE_GRAPH &&
               p_cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS && holds(child)) {
      found = 2;
    }
  }
  free(nodes);
  return found;
}

static struct graph *graph_of(CUgraphExec exec) {
  for (unsigned i = 0; i < graph_count; i++)
    if (graphs[i].exec == exec) return &graphs[i];
  return NULL;
}

/* An executable graph was made of a graph (or brought to its state): keep the latter. */
static void keep_graph(CUgraphExec exec, CUgraph graph) {
  struct graph *known = graph_of(exec), made = {exec, NULL, 0};
  int where = graphs_known ? holds(graph) : 0; /* else its nodes do not count as launches */
  if (known && known->copy) p_cuGraphDestroy(known->copy);
  if (known) known->exec = NULL, known->copy = NULL;
  if (!where) return;
  if (where == 2) made.changed = 2;
  else if (p_cuGraphClone(&made.copy, graph) != CUDA_SUCCESS) made.changed = 3;
  if (!known) {
    void *more = realloc(graphs, (graph_count + 1) * sizeof *graphs);
    if (!more) return;
    graphs = more, known = &graphs[graph_count++];
  }
  *known = made;
}

/* Mark what a node waits for, and what that waits for. */
static void mark(CUgraphNode node, CUgraphNode *nodes, char *marked, size_t count) {
  size_t own_count = 0;
  if (p_cuGraphNodeGetDependencies(node, NULL, &own_count) != CUDA_SUCCESS || !own_count) return;
  CUgraphNode *before = calloc(own_count, sizeof *before);
  if (before && p_cuGraphNodeGetDependencies(node, before, &own_count) == CUDA_SUCCESS)
    for (size_t i = 0; i < own_count; i++)
      for (size_t n = 0; n < count; n++)
        if (nodes[n] == before[i] && !marked[n])
          marked[n] = 1, mark(nodes[n], nodes, marked, count);
  free(before);
}

/* Memory that a node writes, or may write. */
static int add_written(struct memory *m, CUgraphNode node) {
  static struct argument arguments[MOST_ARGUMENTS];
  CUDA_KERNEL_NODE_PARAMS_v2 p;
  CUgraphNodeType type;
  if (kernel_of(node, &p)) {
    struct launch l = {.function = p.func ? p.func : (CUfunction)p.kern,
                       .parameters = p.kernelParams, .extra = p.extra};
    int count = arguments_of(&l, arguments), fine = count >= 0;
    for (int i = 0; i < count; i++) {
      fine = fine && look(m, arguments[i].data, arguments[i].size, 0, 0, 0, 1);
      free(arguments[i].data);
    }
    return fine;
  }
  if (p_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return 1;
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS set;
    if (p_cuGraphMemsetNodeGetParams(node, &set) == CUDA_SUCCESS) buffer_at(m, set.dst, 0);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    CUDA_MEMCPY3D copy;
    if (p_cuGraphMemcpyNodeGetParams(node, &copy) == CUDA_SUCCESS) {
      if (copy.dstMemoryType == CU_MEMORYTYPE_HOST)
        buffer_at(m, (uint64_t)(uintptr_t)copy.dstHost, 0);
      else if (copy.dstMemoryType != CU_MEMORYTYPE_ARRAY)
        buffer_at(m, copy.dstDevice, 0);
    }
  } else if (type != CU_GRAPH_NODE_TYPE_EMPTY && type != CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
             type != CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
    fprintf(report, "note a node before it is no kernel, copy or fill, and ran twice\n");
  }
  return 1;
}

struct place { struct graph *graph; CUgraphNode *nodes; size_t count, node; };

/* Launch what is before a node, keep the node's launch, and put back what that changed. */
static int node_launch(const struct launch *l, void *more) {
  static struct memory changed;
  struct place *at = more;
  char *marked = calloc(at->count, 1);
  CUgraph prefix = NULL;
  CUgraphExec exec = NULL;
  int fine = marked != NULL, any = 0, undone = 1;
  if (!fine) return refuse("there is not enough memory");
  mark(at->nodes[at->node], at->nodes, marked, at->count);
  for (size_t i = 0; fine && i < at->count; i++)
    if (marked[i]) any = 1, fine = add_written(&changed, at->nodes[i]);
  fprintf(report, "note it is a node of a CUDA graph; the nodes before it were launched first\n");
  if (fine && any) {
    fine = follow(&changed);
    if (fine && total_of(&changed) > limit) {
      undone = 0;
      fprintf(report, "note the nodes before it ran twice in the program: what they write holds "
                      "more than is kept\n");
    }
    fine = fine && (!undone || save(&changed, "undo"));
    CUresult done = fine ? p_cuGraphClone(&prefix, at->graph->copy) : CUDA_SUCCESS;
    for (size_t i = 0; fine && done == CUDA_SUCCESS && i < at->count; i++) {
      CUgraphNode twin;
      if (marked[i]) continue;
      done = p_cuGraphNodeFindInClone(&twin, at->nodes[i], prefix);
      if (done == CUDA_SUCCESS) done = p_cuGraphDestroyNode(twin);
    }
    if (fine && done == CUDA_SUCCESS) done = p_cuGraphInstantiate(&exec, prefix, 0);
    if (fine && done == CUDA_SUCCESS) done = p_cuGraphLaunch(exec, own);
    if (fine && done == CUDA_SUCCESS) done = p_cuStreamSynchronize(own);
    if (done != CUDA_SUCCESS) fine = failed("launching the nodes before it", done);
  }
  free(marked);
  fine = fine && lift(l);
  if (fine && any && undone) fine = with_saved(&changed, "undo", NULL);
  if (exec) p_cuGraphExecDestroy(exec);
  if (prefix) p_cuGraphDestroy(prefix);
  return fine;
}

static void graph_starts(CUgraphExec exec) {
  struct graph *graph = graph_of(exec);
  if (!graph || finished) return;
  if (graph->changed) {
    finished = 1;
    refuse(graph->changed == 1   ? "its node of a CUDA graph is given other arguments later on"
           : graph->changed == 2 ? "it is a node of a graph inside of a CUDA graph"
                                 : "its CUDA graph cannot be copied (does it allocate memory?)");
    return;
  }
  struct place at = {graph, NULL, 0, 0};
  inside = 1;
  at.nodes = nodes_of(graph->copy, &at.count);
  inside = 0;
  for (; at.nodes && at.node < at.count && !finished; at.node++) {
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    CUlaunchAttributeValue value;
    if (!kernel_of(at.nodes[at.node], &p) || !is_kernel(&p)) continue;
    struct launch l = {.function = p.func ? p.func : (CUfunction)p.kern,
                       .grid = {p.gridDimX, p.gridDimY, p.gridDimZ},
                       .block = {p.blockDimX, p.blockDimY, p.blockDimZ},
                       .shared = p.sharedMemBytes,
                       .parameters = p.kernelParams,
                       .extra = p.extra};
    memset(&value, 0, sizeof value);
    if (p_cuGraphKernelNodeGetAttribute(at.nodes[at.node], CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                        &value) == CUDA_SUCCESS)
      l.cluster[0] = value.clusterDim.x, l.cluster[1] = value.clusterDim.y,
      l.cluster[2] = value.clusterDim.z;
    memset(&value, 0, sizeof value);
    if (p_cuGraphKernelNodeGetAttribute(at.nodes[at.node], CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                        &value) == CUDA_SUCCESS)
      l.cooperative = value.cooperative;
    if (is_the_one(&l)) attempt(&l, node_launch, &at);
  }
  free(at.nodes);
}

/* --- what the driver is asked to do ----------------------------------------------------------- */

static int is_capturing(CUstream stream, int per_thread) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  inside = 1;
  (per_thread ? p_cuStreamIsCapturing_ptsz : p_cuStreamIsCapturing)(stream, &status);
  inside = 0;
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void starts(const struct launch *l, const char *name, CUstream stream, int per_thread) {
  if (finished || !name || strcmp(name, wanted) || is_capturing(stream, per_thread)) return;
  if (is_the_one(l)) attempt(l, plain_launch, NULL);
}

static struct launch with_config(const CUlaunchConfig *c) {
  struct launch l = {.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                     .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                     .shared = c->sharedMemBytes};
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const CUlaunchAttribute *a = &c->attrs[i];
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      l.cluster[0] = a->value.clusterDim.x, l.cluster[1] = a->value.clusterDim.y,
      l.cluster[2] = a->value.clusterDim.z;
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) l.cooperative = a->value.cooperative;
  }
  return l;
}

static void called(CUpti_CallbackId id, const CUpti_CallbackData *info) {
  const void *given = info->functionParams;
  struct launch l;
  int entering = info->callbackSite == CUPTI_API_ENTER;
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: {
      int alone = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ||
                  id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz;
      const cuLaunchKernel_params *p = given; /* the other one is the same, but for `extra` */
      if (!entering) return;
      l = (struct launch){.function = p->f,
                          .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                          .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                          .shared = p->sharedMemBytes, .cooperative = !alone,
                          .parameters = p->kernelParams, .extra = alone ? p->extra : NULL};
      starts(&l, info->symbolName, p->hStream,
             id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz ||
                 id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz);
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
      const cuLaunchKernelEx_params *p = given;
      if (!entering) return;
      l = with_config(p->config);
      l.function = p->f, l.parameters = p->kernelParams, l.extra = p->extra;
      starts(&l, info->symbolName, p->config->hStream,
             id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz);
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz:
      if (entering) graph_starts(*(CUgraphExec const *)given);
      return;
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData:
      if (entering) keep_binary(((const cuModuleLoadData_params *)given)->image);
      return;
    default: break;
  }
  if (entering || *(const CUresult *)info->functionReturnValue != CUDA_SUCCESS) return;
  inside = 1;
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz: {
      const cuGraphInstantiateWithFlags_params *p = given; /* all begin so */
      keep_graph(*p->phGraphExec, p->hGraph);
      break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2: {
      const cuGraphExecUpdate_v2_params *p = given;
      keep_graph(p->hGraphExec, p->hGraph);
      break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2: {
      struct graph *graph = graph_of(*(CUgraphExec const *)given);
      if (graph && !graph->changed) graph->changed = 1;
      break;
    }
    default: break;
  }
  inside = 0;
}

static void CUPTIAPI callback(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                              const void *data) {
  (void)unused;
  if (getpid() != owner) return;
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    const CUpti_ResourceData *resource = data;
    const CUpti_ModuleResourceData *module = resource->resourceDescriptor;
    if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED && module && images_wanted) {
      static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; /* also inside of our calls */
      pthread_mutex_lock(&loading);
      keep_image(module->pCubin, module->cubinSize);
      pthread_mutex_unlock(&loading);
    }
  } else if (domain == CUPTI_CB_DOMAIN_DRIVER_API && !inside && !finished) {
    pthread_mutex_lock(&turn);
    called(id, data);
    pthread_mutex_unlock(&turn);
  }
}

static void end(void) {
  char name[64], path[4096];
  if (getpid() != owner) return;
  snprintf(name, sizeof name, "%ld.seen", (long)owner);
  path_of(path, sizeof path, name);
  FILE *file = fopen(path, "w");
  if (file) fprintf(file, "%ld %ld\n", seen, matching), fclose(file);
}

static const CUpti_CallbackId watched[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData,
};

static const char *asked(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

/* What the driver calls when CUDA is initialised. */
int InitializeInjection(void) {
  CUpti_SubscriberHandle subscriber;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  folder = asked("WORKBENCH_LIFT"), wanted = asked("WORKBENCH_LIFT_KERNEL");
  if (!*folder || !*wanted || owner || !driver) return 1;
  owner = getpid();
#define FIND(name, symbol, parameters) *(void **)&p_##name = dlsym(driver, symbol);
  DRIVER(FIND)
  NEWER(FIND)
#define MISSING(name, symbol, parameters) || !p_##name
  if (0 DRIVER(MISSING)) {
    refuse("the driver is too old");
    return 1;
  }
  has_shape = sscanf(asked("WORKBENCH_LIFT_SHAPE"), "%ld %ld %ld %ld %ld %ld %ld", &shape[0],
                     &shape[1], &shape[2], &shape[3], &shape[4], &shape[5], &shape[6]) == 7;
  number = atol(asked("WORKBENCH_LIFT_NUMBER"));
  limit = strtoull(asked("WORKBENCH_LIFT_LIMIT"), NULL, 10);
  for (const char *text = asked("WORKBENCH_LIFT_PLAIN"); *text;) {
    char *rest;
    unsigned long index = strtoul(text, &rest, 10);
    if (rest == text) break;
    if (index < MOST_ARGUMENTS) plain[index] = 1;
    text = rest;
  }
  if (cuptiSubscribe(&subscriber, callback, NULL) != CUPTI_SUCCESS) {
    refuse("another tool has the program already: one of CUPTI's callbacks");
    return 1;
  }
  graphs_known = p_cuGraphKernelNodeGetParams && p_cuFuncGetName && p_cuGraphClone;
  for (unsigned i = 0; i < sizeof watched / sizeof *watched; i++)
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, watched[i]);
  cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED);
  atexit(end);
  return 1;
}
