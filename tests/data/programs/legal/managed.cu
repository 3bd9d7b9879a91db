// Right: a list in managed memory is built on the host, changed by a kernel, read and extended on
// the host after synchronisation, and walked again; a managed variable counts.
#include <cstdio>

struct Node {
  int value;
  Node* next;
};
__managed__ int visits = 0;

__global__ void walk(Node* head, int add) {
  for (Node* n = head; n; n = n->next) n->value += add, visits++;
}

int main() {
  Node *head = nullptr, *node;
  for (int i = 0; i < 10; i++) {
    cudaMallocManaged(&node, sizeof(Node));
    *node = {i, head};
    head = node;
  }
  walk<<<1, 1>>>(head, 100);
  bool right = cudaDeviceSynchronize() == cudaSuccess && visits == 10;
  cudaMallocManaged(&node, sizeof(Node));
  *node = {10, head};
  head = node;
  visits = 1000;
  walk<<<1, 1>>>(head, 1000);
  right &= cudaDeviceSynchronize() == cudaSuccess && visits == 1011;
  int i = 10;
  for (Node* n = head; n; n = n->next, i--) right &= n->value == (i == 10 ? 1010 : 1100 + i);
  puts(right && i == -1 ? "right" : "WRONG");
}
