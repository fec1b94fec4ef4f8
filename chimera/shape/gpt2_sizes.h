// The bytes that the layers of gpt2.h take and give back in a forward and a backward, written into
// a ledger in the order of libtorch's kernels. Knows no tensors: nothing is run.
//
// Follows gpt2.cc and dropout.cc line by line: a change there is a change here, and sizes_test.cc,
// which compares with the memory meter, says so.
#pragma once

#include <cstdint>

#include "chimera/shape/ledger.h"
#include "chimera/shape/spec.h"

namespace chimera {

class Gpt2Sizes {
 public:
  // For micro-batches of `sequences` sequences, with `threads` threads within an operation.
  Gpt2Sizes(const ModelSpec& spec, std::int64_t sequences, int threads);

  // Hidden states of one micro-batch: what a layer takes, returns, and what messages carry.
  [[nodiscard]] std::int64_t hidden() const { return x_; }
  // The tokens or the targets of one micro-batch.
  [[nodiscard]] std::int64_t tokens() const { return 8 * rows_; }

  // One layer (global index), its input held by the caller. Leaves the output in the ledger, and
  // with `graph` what the layer saves for its backward, which leaves out its input.
  void forward(int layer, bool graph, Ledger& ledger) const;

  // The last stage's loss of the logits, which it frees. With `graph` leaves what it saves, targets
  // left out.
  void loss_forward(bool graph, Ledger& ledger) const;

  // What is around a layer in a backward.
  struct Around {
    bool output_gradient_stays = false;  // a message's, which the caller keeps to the end
    bool input_stays = false;            // as does a stage's input; others end here
    bool table_shared = false;           // tied, and embedding and head are in one graph
  };

  // Turns the gradient of the layer's output into that of its input, and frees what the layer
  // saved. The embedding has no gradient of its input, and frees the tokens.
  void backward(int layer, const Around& around, Ledger& ledger) const;

  // From the loss to the gradient of the logits; frees the targets.
  void loss_backward(Ledger& ledger) const;

 private:
  void embedding_forward(bool graph, Ledger& ledger) const;
  void block_forward(bool graph, Ledger& ledger) const;
  void head_forward(bool graph, Ledger& ledger) const;
  void attention_forward(bool graph, Ledger& ledger) const;
  void fused_forward(bool graph, Ledger& ledger) const;
  void explicit_forward(bool graph, Ledger& ledger) const;
  void norm_forward(bool graph, Ledger& ledger) const;
  void dropout_forward(std::int64_t elements, std::int64_t width, bool graph, Ledger& ledger) const;

  void embedding_backward(const Around& around, Ledger& ledger) const;
  void block_backward(const Around& around, Ledger& ledger) const;
  void head_backward(const Around& around, Ledger& ledger) const;
  void attention_backward(Ledger& ledger) const;
  void fused_backward(Ledger& ledger) const;
  void explicit_backward(Ledger& ledger) const;
  // From the gradient of x W + b to that of x; frees `freed`: the former, and x.
  void linear_backward(std::int64_t in, std::int64_t out, std::int64_t freed, Ledger& ledger) const;
  void norm_backward(bool input_stays, Ledger& ledger) const;
  void dropout_backward(Ledger& ledger) const;
  void parameter_backward(std::int64_t elements, Ledger& ledger) const;

  // Replaces a gradient by one of another size, as most operations do.
  static void turn(std::int64_t from, std::int64_t to, Ledger& ledger) {
    ledger.take(to);
    ledger.give(from);
  }

  int head_layer_;
  std::int64_t vocabulary_, positions_, hidden_, heads_, sequence_, threads_;
  std::int64_t rows_;     // sequences * tokens
  std::int64_t element_;  // bytes of one, in the type of the computation
  std::int64_t wide_;     // of one in which sums are kept: at least fp32
  std::int64_t x_;        // of hidden states
  std::int64_t stats_;    // of the mean and deviation that a norm saves
  std::int64_t logits_;   // elements
  std::int64_t scores_;   // elements: of the attention of all heads
  bool drops_;            // dropout, and with it the explicit attention
  bool copies_;           // whether query, key and value are copied to be multiplied
  bool copies_mixed_;     // and attention's result
};

}  // namespace chimera
