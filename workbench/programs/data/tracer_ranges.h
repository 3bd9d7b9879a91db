/* NVTX ranges for the tracer: what each thread is inside of, as a text, at any moment.
 *
 * NVTX loads the library that NVTX_INJECTION64_PATH names and hands it a table of its functions;
 * those that begin, end and name ranges are replaced here. Each change gives CUPTI the number of
 * the thread's text, which comes back beside every launch (an "external correlation").
 *
 * A text has the ranges from the outermost on, "domain@name" or "name", separated by '\x1f'. Those of
 * nvtxRangeStart come first, with '\x1e' before them: they are of the process, as they are for ncu.
 * A thread that launches after another one has started or ended such a range is told at its call:
 * from the first of them on CUPTI calls us before every call of CUDA. */
#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#define DEEPEST 64    /* ranges of a thread that are told apart; deeper ones are counted only */
#define LONGEST 160   /* bytes of one range's name, its domain included */
#define KIND CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 /* PyTorch's profiler takes the other two */

struct range {
  const void *domain;
  uint64_t id; /* of a range that was started */
  char text[LONGEST];
};
static __thread struct range inside[DEEPEST];
static __thread int depth;        /* may be more than DEEPEST */
static __thread int pushed;       /* whether CUPTI has a number of this thread's */
static __thread unsigned current; /* how many changes of `running` it has seen */
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static struct range running[DEEPEST]; /* those that were started, under the lock */
static int runs;
static unsigned changes;     /* of `running` */
static struct table paths;   /* texts by number; written to the file when a launch has one */
static uint64_t started;
static int asked, listening;

/* From the first range on: the numbers come beside records of API calls. */
static void ask_for_correlation(void) {
  if (__sync_lock_test_and_set(&asked, 1)) return;
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER);
}

static size_t append(char *text, size_t length, const struct range *r) {
  if (length) text[length++] = '\x1f';
  size_t size = strlen(r->text);
  memcpy(text + length, r->text, size);
  return length + size;
}

/* Gives CUPTI the number of what this thread is inside of, and returns the text. */
static const char *changed(void) {
  char text[2 * DEEPEST * (LONGEST + 1)];
  size_t length = 0;
  int is_new;
  ask_for_correlation();
  if (pushed) cuptiActivityPopExternalCorrelationId(KIND, NULL);
  pthread_mutex_lock(&ranges_lock);
  current = changes;
  for (int i = 0; i < runs; i++) length = append(text, length, &running[i]);
  for (int i = 0; i < depth && i < DEEPEST; i++) length = append(text, length, &inside[i]);
  text[length] = 0;
  uint32_t id = number_of(&paths, text, &is_new);
  const char *kept = paths.by_number[id];
  pthread_mutex_unlock(&ranges_lock);
  pushed = length > 0;
  if (pushed) cuptiActivityPushExternalCorrelationId(KIND, id);
  return kept;
}

/* UTF-8 of a wide text, cut where there is no more room. */
static void narrow(char *to, size_t room, const wchar_t *from) {
  size_t at = 0;
  for (; from && *from && at + 4 < room; from++) {
    uint32_t c = (uint32_t)*from;
    if (c < 0x80) to[at++] = (char)c;
    else if (c < 0x800) to[at++] = (char)(0xc0 | c >> 6), to[at++] = (char)(0x80 | (c & 63));
    else if (c < 0x10000)
      to[at++] = (char)(0xe0 | c >> 12), to[at++] = (char)(0x80 | (c >> 6 & 63)),
      to[at++] = (char)(0x80 | (c & 63));
    else
      to[at++] = (char)(0xf0 | c >> 18), to[at++] = (char)(0x80 | (c >> 12 & 63)),
      to[at++] = (char)(0x80 | (c >> 6 & 63)), to[at++] = (char)(0x80 | (c & 63));
  }
  to[at] = 0;
}

static void fill(struct range *r, const void *domain, const char *name, uint64_t id) {
  r->domain = domain, r->id = id;
  snprintf(r->text, LONGEST, "%s%s%s%s", id ? "\x1e" : "", domain ? (const char *)domain : "",
           domain ? "@" : "", name ? name : "");
  for (char *c = r->text + (id != 0); *c; c++)
    if ((unsigned char)*c < 0x20) *c = ' ';
}

/* Before a call of CUDA: a thread whose text is out of date has a new one. */
static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const CUpti_CallbackData *call) {
  (void)user, (void)domain, (void)id;
  if (call->callbackSite != CUPTI_API_ENTER || current == __sync_fetch_and_add(&changes, 0)) return;
  const char *text = changed();
  pthread_mutex_lock(&lock); /* CUPTI may have taken the old number for this call */
  if (getpid() == owner && file >= 0) {
    uint32_t name = name_of(text);
    put32(6), put32(call->correlationId), put32(name);
  }
  pthread_mutex_unlock(&lock);
}

static void begin(const void *domain, const char *name, uint64_t id) {
  CUpti_SubscriberHandle subscriber;
  if (!__sync_lock_test_and_set(&listening, 1) &&
      cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)called, NULL) == CUPTI_SUCCESS) {
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  }
  pthread_mutex_lock(&ranges_lock);
  if (runs < DEEPEST) fill(&running[runs++], domain, name, id), changes++;
  pthread_mutex_unlock(&ranges_lock);
  changed();
}

static int enter(const void *domain, const char *name, uint64_t id) {
  int level = 0;
  if (id) return begin(domain, name, id), 0;
  for (int i = 0; i < depth && i < DEEPEST; i++) level += inside[i].domain == domain;
  if (depth < DEEPEST) fill(&inside[depth], domain, name, 0);
  depth++;
  changed();
  return level;
}

/* The last one of the domain that was pushed. */
static int leave(const void *domain) {
  int level = -1, found = -1;
  if (depth > DEEPEST) return --depth, DEEPEST;
  for (int i = depth - 1; i >= 0; i--) {
    int same = inside[i].domain == domain;
    if (same && found < 0) found = i;
    level += same;
  }
  if (found < 0) return -1;
  memmove(&inside[found], &inside[found + 1], (size_t)(DEEPEST - 1 - found) * sizeof *inside);
  depth--;
  changed();
  return level;
}

static void finished(uint64_t id) {
  pthread_mutex_lock(&ranges_lock);
  for (int i = 0; i < runs; i++) {
    if (running[i].id != id) continue;
    memmove(&running[i], &running[i + 1], (size_t)(runs - 1 - i) * sizeof *running);
    runs--, changes++;
    break;
  }
  pthread_mutex_unlock(&ranges_lock);
  changed();
}

static int enter_event(const void *domain, const nvtxEventAttributes_t *event, uint64_t id) {
  char text[LONGEST] = "";
  if (!event) return enter(domain, text, id);
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII: return enter(domain, event->message.ascii, id);
    case NVTX_MESSAGE_TYPE_REGISTERED: return enter(domain, (const char *)event->message.registered, id);
    case NVTX_MESSAGE_TYPE_UNICODE: narrow(text, sizeof text, event->message.unicode);
  }
  return enter(domain, text, id);
}

#define NEXT __sync_add_and_fetch(&started, 1)
static int push_a(const char *m) { return enter(NULL, m, 0); }
static int push_w(const wchar_t *m) { char t[LONGEST]; return narrow(t, sizeof t, m), enter(NULL, t, 0); }
static int push_ex(const nvtxEventAttributes_t *e) { return enter_event(NULL, e, 0); }
static int pop(void) { return leave(NULL); }
static nvtxRangeId_t start_a(const char *m) { uint64_t id = NEXT; return enter(NULL, m, id), id; }
static nvtxRangeId_t start_w(const wchar_t *m) {
  char t[LONGEST];
  uint64_t id = NEXT;
  return narrow(t, sizeof t, m), enter(NULL, t, id), id;
}
static nvtxRangeId_t start_ex(const nvtxEventAttributes_t *e) {
  uint64_t id = NEXT;
  return enter_event(NULL, e, id), id;
}
static void end(nvtxRangeId_t id) { finished(id); }
static int domain_push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *e) { return enter_event(d, e, 0); }
static int domain_pop(nvtxDomainHandle_t d) { return leave(d); }
static nvtxRangeId_t domain_start(nvtxDomainHandle_t d, const nvtxEventAttributes_t *e) {
  uint64_t id = NEXT;
  return enter_event(d, e, id), id;
}
static void domain_end(nvtxDomainHandle_t d, nvtxRangeId_t id) { (void)d, finished(id); }

/* Handles of domains and registered strings are their texts. */
static const void *kept(const char *text) { return strdup(text ? text : ""); }
static const void *kept_w(const wchar_t *text) { char t[LONGEST]; return narrow(t, sizeof t, text), kept(t); }
static nvtxDomainHandle_t domain_a(const char *m) { return (nvtxDomainHandle_t)kept(m); }
static nvtxDomainHandle_t domain_w(const wchar_t *m) { return (nvtxDomainHandle_t)kept_w(m); }
static nvtxStringHandle_t string_a(nvtxDomainHandle_t d, const char *m) { (void)d; return (nvtxStringHandle_t)kept(m); }
static nvtxStringHandle_t string_w(nvtxDomainHandle_t d, const wchar_t *m) { (void)d; return (nvtxStringHandle_t)kept_w(m); }

/* What NVTX calls before the first of its functions does anything. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export) {
  const NvtxExportTableCallbacks *callbacks = export ? export(NVTX_ETID_CALLBACKS) : NULL;
  NvtxFunctionTable core = NULL, core2 = NULL;
  unsigned int size = 0, size2 = 0;
  if (!getenv("WORKBENCH_TRACE") || !callbacks) return 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) &&
      size > NVTX_CBID_CORE_RangePop) {
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push_a;
    *core[NVTX_CBID_CORE_RangePushW] = (NvtxFunctionPointer)push_w;
    *core[NVTX_CBID_CORE_RangePushEx] = (NvtxFunctionPointer)push_ex;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    *core[NVTX_CBID_CORE_RangeStartA] = (NvtxFunctionPointer)start_a;
    *core[NVTX_CBID_CORE_RangeStartW] = (NvtxFunctionPointer)start_w;
    *core[NVTX_CBID_CORE_RangeStartEx] = (NvtxFunctionPointer)start_ex;
    *core[NVTX_CBID_CORE_RangeEnd] = (NvtxFunctionPointer)end;
  }
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size2) &&
      size2 > NVTX_CBID_CORE2_DomainCreateW) {
    *core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)domain_push;
    *core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)domain_pop;
    *core2[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)domain_start;
    *core2[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)domain_end;
    *core2[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)string_a;
    *core2[NVTX_CBID_CORE2_DomainRegisterStringW] = (NvtxFunctionPointer)string_w;
    *core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_a;
    *core2[NVTX_CBID_CORE2_DomainCreateW] = (NvtxFunctionPointer)domain_w;
  }
  return 1;
}

/* The text of a number that CUPTI gave back; empty where it is not ours. */
static const char *path_of(uint64_t id) {
  const char *text = "";
  pthread_mutex_lock(&ranges_lock);
  if (id < paths.known) text = paths.by_number[id];
  pthread_mutex_unlock(&ranges_lock);
  return text;
}
#else /* a toolkit without NVTX's headers: traced without ranges */
#define KIND CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2
static const char *path_of(uint64_t id) { return (void)id, ""; }
#endif
