/* Every kernel, copy and fill of a process, with its time: loaded by the CUDA driver itself
 * (CUDA_INJECTION64_PATH), so that a program is traced without being changed. It asks for
 * activity records only; these need no access to hardware counters and replay nothing.
 *
 * Writes $WORKBENCH_TRACE/<pid>.trace, little endian, read by workbench/programs/capture/trace.py:
 *
 *   "WBTRACE2"  u32 pid  u32 CUPTI_API_VERSION
 *   u32 1  u32 id  u32 length  bytes              a name, before its first use
 *   u32 2  struct work                            a kernel, copy or fill
 *   u32 3  u32 0  u64 dropped                     the last record of a process that ended itself
 *   u32 4  u32 correlation  u32 name              the NVTX ranges (tracer_ranges.h) of a launch
 *   u32 6  u32 correlation  u32 name              the same, of a call: it counts before 4
 *   u32 5  u32 rank                               the number that a launcher gave the process
 *
 * Built with the headers of the toolkit that is there. Only fields are read that have kept
 * their places since CUDA 11.0 (CUpti_ActivityKernel5; CUPTI appends new ones). */
#include <cupti.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER (1u << 19)
#define FLUSH_MS 500

struct work {
  uint32_t name, device, stream, graph; /* 1: of a CUDA graph, 2: of a launch on several GPUs */
  uint64_t start, end;                  /* ns, one clock for all processes of a machine */
  uint32_t grid[3], block[3];           /* zero for copies and fills */
  uint32_t static_shared, dynamic_shared;
  uint64_t bytes;                /* of copies and fills */
  uint32_t correlation, zero;    /* which API call asked for it */
};

static int file = -1;
static pid_t owner;
static uint64_t dropped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- output, gathered and written with few calls ------------------------------------------ */

static unsigned char pending[1 << 16];
static size_t filled;

static void drain(void) {
  size_t done = 0;
  while (done < filled) {
    ssize_t n = write(file, pending + done, filled - done);
    if (n <= 0) break; /* a full disk: the reader sees a file that does not end */
    done += (size_t)n;
  }
  filled = 0;
}

static void put(const void *data, size_t size) {
  const unsigned char *from = data;
  while (size) {
    size_t room = sizeof pending - filled, part = size < room ? size : room;
    memcpy(pending + filled, from, part);
    filled += part, from += part, size -= part;
    if (filled == sizeof pending) drain();
  }
}

static void put32(uint32_t value) { put(&value, sizeof value); }

/* --- texts, each with a number -------------------------------------------------------------- */

struct table {
  char **slots, **by_number;
  uint32_t *numbers, size, known;
};

static uint32_t slot_of(const struct table *t, const char *text) {
  uint64_t hash = 1469598103934665603ull;
  for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
  uint32_t at = (uint32_t)(hash % t->size);
  while (t->slots[at] && strcmp(t->slots[at], text)) at = (at + 1) % t->size;
  return at;
}

static void grow(struct table *t) {
  struct table old = *t;
  t->size = old.size ? 2 * old.size : 1024;
  t->slots = calloc(t->size, sizeof *t->slots);
  t->numbers = calloc(t->size, sizeof *t->numbers);
  t->by_number = realloc(old.by_number, t->size * sizeof *t->by_number);
  if (!t->slots || !t->numbers || !t->by_number) abort();
  for (uint32_t i = 0; i < old.known; i++) {
    uint32_t at = slot_of(t, t->by_number[i]);
    t->slots[at] = t->by_number[i], t->numbers[at] = i;
  }
  free(old.slots), free(old.numbers);
}

/* The number of a text; `is_new` says whether it has just been given. */
static uint32_t number_of(struct table *t, const char *text, int *is_new) {
  if (2 * t->known >= t->size) grow(t);
  uint32_t at = slot_of(t, text);
  *is_new = !t->slots[at];
  if (*is_new) {
    t->slots[at] = t->by_number[t->known] = strdup(text);
    if (!t->slots[at]) abort();
    t->numbers[at] = t->known++;
  }
  return t->numbers[at];
}

static struct table names;

/* The number of a name in the file, which has it from now on. */
static uint32_t name_of(const char *name) {
  int is_new;
  if (!name) name = "";
  uint32_t id = number_of(&names, name, &is_new);
  if (is_new) {
    uint32_t length = (uint32_t)strlen(name);
    put32(1), put32(id), put32(length), put(name, length);
  }
  return id;
}

#include "tracer_ranges.h"

/* --- activity ------------------------------------------------------------------------------ */

static const char *copy_name(unsigned kind) {
  static const char *const kinds[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  static char text[32];
  snprintf(text, sizeof text, "[copy %s]", kind && kind < 11 ? kinds[kind] : "?");
  return text;
}

static void take(CUpti_Activity *record) {
  struct work w = {0};
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
      record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
    CUpti_ActivityKernel5 *k = (CUpti_ActivityKernel5 *)record;
    w = (struct work){name_of(k->name), k->deviceId, k->streamId,
                      (k->graphNodeId != 0) |
                          2 * (k->launchType == CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE),
                      k->start, k->end,
                      {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
                      {(uint32_t)k->blockX, (uint32_t)k->blockY, (uint32_t)k->blockZ},
                      (uint32_t)k->staticSharedMemory, (uint32_t)k->dynamicSharedMemory, 0,
                      k->correlationId, 0};
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    CUpti_ActivityMemcpy *m = (CUpti_ActivityMemcpy *)record;
    w.name = name_of(copy_name(m->copyKind));
    w.device = m->deviceId, w.stream = m->streamId, w.correlation = m->correlationId;
    w.start = m->start, w.end = m->end, w.bytes = m->bytes;
  } else if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    CUpti_ActivityExternalCorrelation *e = (CUpti_ActivityExternalCorrelation *)record;
    const char *path = e->externalKind == KIND ? path_of(e->externalId) : "";
    if (*path) {
      uint32_t name = name_of(path);
      put32(4), put32(e->correlationId), put32(name);
    }
    return;
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    CUpti_ActivityMemset *m = (CUpti_ActivityMemset *)record;
    w.name = name_of("[fill]");
    w.device = m->deviceId, w.stream = m->streamId, w.correlation = m->correlationId;
    w.start = m->start, w.end = m->end, w.bytes = m->bytes;
  } else {
    return;
  }
  put32(2), put(&w, sizeof w);
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *most) {
  *buffer = aligned_alloc(8, BUFFER);
  *size = *buffer ? BUFFER : 0;
  *most = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                               size_t valid) {
  CUpti_Activity *record = NULL;
  size_t lost = 0;
  (void)size;
  pthread_mutex_lock(&lock);
  while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take(record);
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  drain();
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static void finish(void) {
  if (getpid() != owner || file < 0) return; /* a forked child has its own file, or none */
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  pthread_mutex_lock(&lock);
  put32(3), put32(0), put(&dropped, sizeof dropped);
  drain();
  close(file);
  file = -1;
  pthread_mutex_unlock(&lock);
}

/* The number of this process among those that work together, of torchrun, mpirun or srun: what
 * stands first is set nearest to the process. */
static void put_rank(void) {
  static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                      "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = getenv(names[i]);
    char *end = NULL;
    long rank = text && *text ? strtol(text, &end, 10) : -1;
    if (rank < 0 || rank > 1 << 24 || *end) continue;
    put32(5), put32((uint32_t)rank);
    return;
  }
}

/* What the driver calls when CUDA is initialised. */
int InitializeInjection(void) {
  char path[4096];
  const char *folder = getenv("WORKBENCH_TRACE");
  if (!folder || file >= 0) return 1;
  owner = getpid();
  snprintf(path, sizeof path, "%s/%ld.trace", folder, (long)owner);
  file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return 1; /* the program runs on untraced, and that is told */
  put("WBTRACE2", 8), put32((uint32_t)owner), put32(CUPTI_API_VERSION);
  put_rank();
  drain();
  if (cuptiActivityRegisterCallbacks(requested, completed) != CUPTI_SUCCESS) return 1;
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  cuptiActivityFlushPeriod(FLUSH_MS); /* so that a process that is killed loses little */
  atexit(finish);
  return 1;
}
