# SPDX-License-Identifier: Apache-2.0
"""GNMT, translation with LSTMs and attention (Wu et al., arXiv 1609.08144). Data parallel.

The first layer of the encoder runs in both directions; every layer of the decoder gets the context
of the attention beside the output of the layer below.
"""

from functools import partial

from sim.workload.generate.parts import checked, dense, gradient_pass, update_bytes
from sim.workload.model import LayerPass, ModelLayer, ModelTable
from sim.workload.training import Parallelism
from sim.workload.work import Gemm, Work

__all__ = ["generate"]


def generate(
    *,
    batch: int = 128,
    dtype_bytes: int = 2,
    hidden: int = 1024,
    encoder_layers: int = 8,
    decoder_layers: int = 8,
    vocabulary: int = 32000,
    source_length: int = 50,
    target_length: int = 50,
    classifier_tokens: int | None = None,
    shared_embedding: bool = True,
    cached_weights: bool = False,
) -> ModelTable:
    """GNMT on *batch* pairs of sentences per NPU.

    Parameters
    ----------
    hidden
        Outputs of an LSTM and elements of an embedding.
    encoder_layers, decoder_layers
        The bidirectional layer of the encoder counts as one.
    vocabulary
        Word pieces.
    source_length, target_length
        Word pieces of a sentence; sentences of a batch are equally long.
    classifier_tokens
        Word pieces of a sentence that the classifier scores; None for *target_length*. Lists of
        products that hold one time step of every LSTM still have the classifier of a sentence.
    shared_embedding
        One table for both languages, as they share their word pieces.
    cached_weights
        Recurrent weights stay on the chip between time steps, rather than being read in each.
    """
    checked(
        batch=batch,
        dtype_bytes=dtype_bytes,
        hidden=hidden,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        vocabulary=vocabulary,
        source_length=source_length,
        target_length=target_length,
        classifier_tokens=target_length if classifier_tokens is None else classifier_tokens,
    )

    lstm = partial(
        _lstm, hidden=hidden, batch=batch, dtype_bytes=dtype_bytes, cached_weights=cached_weights
    )
    table = vocabulary * hidden
    source, target = batch * source_length, batch * target_length
    layers = [
        _embedding("source_embedding", source * hidden, table, dtype_bytes),
        lstm("encoder1_forward", hidden, source_length),
        lstm("encoder1_backward", hidden, source_length),
    ]
    for number in range(2, encoder_layers + 1):
        inputs = 2 * hidden if number == 2 else hidden
        layers.append(lstm(f"encoder{number}", inputs, source_length))
    layers += [
        _embedding(
            "target_embedding", target * hidden, 0 if shared_embedding else table, dtype_bytes
        ),
        lstm("decoder1", 2 * hidden, target_length),
        _attention(
            hidden=hidden,
            batch=batch,
            keys=source_length if encoder_layers > 1 else 2 * source_length,
            queries=target_length,
            dtype_bytes=dtype_bytes,
        ),
    ]
    for number in range(2, decoder_layers + 1):
        layers.append(lstm(f"decoder{number}", 2 * hidden, target_length))
    scored = target if classifier_tokens is None else batch * classifier_tokens
    layers.append(
        dense("classifier", Gemm(m=scored, n=vocabulary, k=hidden), dtype_bytes=dtype_bytes)
    )
    return ModelTable(
        name="gnmt",
        layers=tuple(layers),
        parallelism=Parallelism(keyword="DATA"),
        batch=batch,
        dtype_bytes=dtype_bytes,
        assumptions=(
            f"{source_length} and {target_length} word pieces per sentence, padding included",
            "inputs of an LSTM are multiplied for all time steps at once, its state step by step",
            "recurrent weights stay on the chip"
            if cached_weights
            else "recurrent weights are read in every time step",
            "gradients of embeddings are dense",
        ),
    )


def _lstm(
    name: str,
    inputs: int,
    length: int,
    *,
    hidden: int,
    batch: int,
    dtype_bytes: int,
    cached_weights: bool,
) -> ModelLayer:
    gates = 4 * hidden
    outside = Gemm(m=batch * length, n=gates, k=inputs)
    state = Gemm(m=batch, n=gates, k=hidden, count=length)
    # The gradient of the recurrent weights sums over time, so it is one product.
    weights = Gemm(m=hidden, n=gates, k=batch * length)
    parameters = gates * (inputs + hidden + 1)
    reread = 0 if not cached_weights else (length - 1) * gates * hidden
    # Gates and cell: read the sums, read and write cell state and output.
    cells = batch * length * (gates + 3 * hidden)
    step_by_step = outside.elements() + state.elements() - reread + cells
    cell_flops = 10 * batch * length * hidden
    return ModelLayer(
        name=name,
        parameters=parameters,
        forward=LayerPass(
            work=Work(
                gemms=(outside, state),
                other_flops=cell_flops,
                memory_bytes=step_by_step * dtype_bytes,
            )
        ),
        input_gradient=LayerPass(
            work=Work(
                gemms=(outside.input_gradient(), state.input_gradient()),
                other_flops=cell_flops,
                memory_bytes=step_by_step * dtype_bytes,
            )
        ),
        weight_gradient=gradient_pass(
            Work(
                gemms=(outside.weight_gradient(), weights),
                memory_bytes=(outside.elements() + weights.elements()) * dtype_bytes,
            ),
            parameters,
            dtype_bytes,
        ),
        update_bytes=update_bytes(parameters, dtype_bytes),
    )


def _attention(*, hidden: int, batch: int, keys: int, queries: int, dtype_bytes: int) -> ModelLayer:
    # Additive attention: score = v . tanh(W query + U key).
    project_queries = Gemm(m=batch * queries, n=hidden, k=hidden)
    project_keys = Gemm(m=batch * keys, n=hidden, k=hidden)
    context = Gemm(m=queries, n=hidden, k=keys, count=batch)
    scores = batch * queries * keys
    parameters = 2 * hidden * hidden + hidden
    moved = (
        project_queries.elements() + project_keys.elements() + context.elements() + 2 * scores
    ) * dtype_bytes
    products = (project_queries, project_keys, context)
    score_flops = 4 * scores * hidden
    return ModelLayer(
        name="attention",
        parameters=parameters,
        forward=LayerPass(work=Work(gemms=products, other_flops=score_flops, memory_bytes=moved)),
        input_gradient=LayerPass(
            work=Work(
                # The context is a product of two activations: both get a gradient.
                gemms=(*(gemm.input_gradient() for gemm in products), context.weight_gradient()),
                other_flops=2 * score_flops,
                memory_bytes=moved + context.elements() * dtype_bytes,
            )
        ),
        weight_gradient=gradient_pass(
            Work(
                gemms=(project_queries.weight_gradient(), project_keys.weight_gradient()),
                memory_bytes=(project_queries.elements() + project_keys.elements()) * dtype_bytes,
            ),
            parameters,
            dtype_bytes,
        ),
        update_bytes=update_bytes(parameters, dtype_bytes),
    )


def _embedding(name: str, elements: int, parameters: int, dtype_bytes: int) -> ModelLayer:
    look_up = Work(memory_bytes=2 * elements * dtype_bytes)
    return ModelLayer(
        name=name,
        parameters=parameters,
        forward=LayerPass(work=look_up),
        input_gradient=LayerPass(),
        weight_gradient=gradient_pass(look_up, parameters, dtype_bytes),
        update_bytes=update_bytes(parameters, dtype_bytes),
    )
