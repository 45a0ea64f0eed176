"""Pure tensor maths: one equation, one function, one hand-computed test.

Shape legend: B sequences (groups of G, named by `group` [B]), T response positions, V vocabulary,
H hidden size, N anything flat. `mask` [B, T] is true on tokens that the policy wrote; it may have
holes, positions keep counting through them, and a masked position is not alive. Logarithms are
natural, entropies are full-vocabulary entropies in nats.
"""
