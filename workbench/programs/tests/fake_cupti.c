/* A CUPTI without a GPU: `fake_launch` is a launch, and a flush hands out what was launched, each
 * kernel before the ranges that it was inside of. */
#include <cupti.h>

#include <stdlib.h>
#include <string.h>

static CUpti_BuffersCallbackCompleteFunc complete;
static union {
  CUpti_ActivityKernel5 kernel;
  CUpti_ActivityExternalCorrelation outside;
} records[1000];
static int count, given, correlating;
static __thread uint64_t stack[16];
static __thread int depth;
static CUpti_CallbackFunc listener;

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *s, CUpti_CallbackFunc called, void *user) {
  (void)s, (void)user;
  listener = called;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain domain) {
  (void)on, (void)s, (void)domain;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
                                           CUpti_BuffersCallbackCompleteFunc c) {
  (void)r;
  complete = c;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  correlating |= kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushPeriod(uint32_t time) { return (void)time, CUPTI_SUCCESS; }
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext c, uint32_t s, size_t *dropped) {
  (void)c, (void)s;
  *dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind k, uint64_t id) {
  (void)k;
  stack[depth++] = id;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind k, uint64_t *last) {
  (void)k, (void)last;
  depth--;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
  (void)buffer, (void)valid;
  if (given == count) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity *)&records[given++];
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  complete(0, 0, malloc(1), 1, 1);
  return CUPTI_SUCCESS;
}

void fake_launch(const char *name) {
  uint32_t asked = (uint32_t)count + 1;
  CUpti_ActivityKernel5 *kernel = &records[count++].kernel;
  kernel->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel->name = strdup(name), kernel->correlationId = asked;
  kernel->gridX = kernel->gridY = kernel->gridZ = 1;
  kernel->blockX = kernel->blockY = kernel->blockZ = 32;
  kernel->start = 1000 * asked, kernel->end = kernel->start + 10;
  uint64_t before = depth ? stack[depth - 1] : 0;
  int had = depth;
  if (listener) {
    CUpti_CallbackData call = {.callbackSite = CUPTI_API_ENTER, .correlationId = asked};
    listener(NULL, CUPTI_CB_DOMAIN_RUNTIME_API, 0, &call);
  }
  if (!correlating || !had) return; /* with what it was before the call */
  CUpti_ActivityExternalCorrelation *outside = &records[count++].outside;
  outside->kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  outside->externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
  outside->externalId = before, outside->correlationId = asked;
}
