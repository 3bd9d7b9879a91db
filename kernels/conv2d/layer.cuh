// What every version is told of the layer.

// The shape, in the order in which `args` lists it.
struct Layer {
    int N, C, H, W;  // the input: images, channels, rows and columns
    int K, R, S;     // the filters: how many, rows and columns of taps
    int U, V;        // strides, down and across
    int P, Q;        // padding above and below, left and right
    int OH, OW;      // the output: rows and columns
};

// From a tap to the one a tile's depth behind it: rows and columns of the filter, to be carried
// over, and the offset in the input.
struct Step {
    int r, s, offset;
};
