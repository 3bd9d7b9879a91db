/* ---
title = "A warp per pair, four rows a lane in registers, shuffles along the diagonal"
change = "No shared memory and no barriers: the wavefront travels from lane to lane."
requires = "M <= 128"
requires_why = "a lane keeps four rows"
[[launch]]
kernel = "align"
grid = ["cdiv(B, 4)"]
block = [128]
args = ["a", "b", "score", "B", "M", "L"]
--- */
constexpr int ROWS = 4;

extern "C" __global__ void __launch_bounds__(128) align(const unsigned char* __restrict__ a,
                                                        const unsigned char* __restrict__ b,
                                                        int* __restrict__ score, int pairs, int m, int l) {
    const int lane = threadIdx.x & 31, pair = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (pair >= pairs) return;
    a += pair * m;
    b += pair * l;
    int row[ROWS], sym[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int i = lane * ROWS + r;
        sym[r] = i < m ? a[i] : 255;
        row[r] = -2 * (i + 1);
    }
    int diag = -2 * (lane * ROWS);  // the value above and left of this lane's first row
    int letter = 0;
    const int last = (m - 1) / ROWS;
    for (int step = 0; step < l + last; ++step) {
        // What the lane above finished one step ago is what stands above this lane's cell.
        int up = __shfl_up_sync(0xffffffffu, row[ROWS - 1], 1);
        letter = __shfl_up_sync(0xffffffffu, letter, 1);
        int j = step - lane;
        if (lane == 0) {
            up = -2 * (j + 1);
            letter = j < l ? b[j] : 254;
        }
        if (j >= 0 && j < l) {
            int above = up, corner = diag;
            diag = up;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                int left = row[r];
                int v = max(corner + (sym[r] == letter ? 2 : -1), max(left, above) - 2);
                corner = left;
                above = v;
                row[r] = v;
            }
        }
    }
    if (lane == last) {
        int v = row[0];
#pragma unroll
        for (int r = 1; r < ROWS; ++r)
            if ((m - 1) % ROWS == r) v = row[r];
        score[pair] = v;
    }
}
