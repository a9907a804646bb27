"""Transformers: encoder or decoder stacks (BERT, GPT) and both together (Vaswani et al., 2017).

With more than one NPU per copy of the model, the weights of a block are split as in Megatron-LM
(Shoeybi et al., arXiv 1909.08053): attention by heads, the feed-forward part by columns, then rows.
Activations are summed after both parts of a block, their gradients before.
"""

from collections.abc import Sequence
from typing import Any

from sim.fields import FieldError
from sim.workload.generate.parts import checked, dense, gradient_pass, summed, update_bytes
from sim.workload.model import LayerPass, ModelLayer, ModelTable
from sim.workload.training import Parallelism
from sim.workload.work import Gemm, Work

__all__ = ["PRESETS", "generate"]

_VASWANI = {
    "layers": 6,
    "decoder_layers": 6,
    "sequence": 128,
    "vocabulary": 37000,
    "positions": 0,
    "outer_norm": False,
}
_BERT = {"sequence": 512, "vocabulary": 30522, "token_types": 2, "pooler": True}

PRESETS: dict[str, dict[str, Any]] = {
    "transformer-base": {**_VASWANI, "hidden": 512, "heads": 8},
    "transformer-big": {**_VASWANI, "hidden": 1024, "heads": 16},
    "bert-base": {**_BERT, "hidden": 768, "layers": 12, "heads": 12},
    "bert-large": {**_BERT, "hidden": 1024, "layers": 24, "heads": 16},
    "gpt2": {"hidden": 768, "layers": 12, "heads": 12, "sequence": 1024, "vocabulary": 50257},
    "megatron-8.3b": {
        "hidden": 3072,
        "layers": 72,
        "heads": 24,
        "sequence": 1024,
        "vocabulary": 50257,
        "model_parallel_npus": 8,
    },
    "gpt3": {
        "hidden": 12288,
        "layers": 96,
        "heads": 96,
        "sequence": 2048,
        "vocabulary": 50257,
        "model_parallel_npus": 8,
    },
}


def generate(
    *,
    hidden: int = 768,
    layers: int = 12,
    heads: int = 12,
    sequence: int = 512,
    vocabulary: int = 50257,
    feed_forward: int | None = None,
    positions: int | None = None,
    token_types: int = 0,
    pooler: bool = False,
    outer_norm: bool = True,
    decoder_layers: int = 0,
    model_parallel_npus: int = 1,
    recompute: bool = False,
    batch: int = 8,
    dtype_bytes: int = 2,
) -> ModelTable:
    """A Transformer on *batch* sequences per copy of the model.

    Parameters
    ----------
    hidden, heads, layers, sequence, vocabulary
        Elements per token, attention heads, blocks, tokens per sequence, token ids. Embedding and
        output layer share their weights.
    feed_forward
        Inner size of the feed-forward part; 4 x hidden if None.
    positions, token_types
        Learned embeddings beside those of tokens; positions are as many as `sequence` if None.
    pooler
        A layer on the first token (BERT).
    outer_norm
        A normalisation outside the blocks, after the embedding or after the last block.
    decoder_layers
        Blocks with cross attention after the others, on as long a sequence of their own.
    model_parallel_npus
        NPUs over which one copy of the model is split; divides heads and feed_forward.
    recompute
        Keep the inputs of blocks only and run their forward pass again before the backward pass.
    """
    inner = 4 * hidden if feed_forward is None else feed_forward
    learned = sequence if positions is None else positions
    checked(
        hidden=hidden,
        layers=layers,
        heads=heads,
        sequence=sequence,
        vocabulary=vocabulary,
        feed_forward=inner,
        model_parallel_npus=model_parallel_npus,
        batch=batch,
        dtype_bytes=dtype_bytes,
    )
    _not_negative(positions=learned, token_types=token_types, decoder_layers=decoder_layers)
    _divides("heads", heads, hidden=hidden)
    _divides("model_parallel_npus", model_parallel_npus, heads=heads, feed_forward=inner)
    maker = _Maker(
        hidden=hidden,
        heads=heads,
        sequence=sequence,
        inner=inner,
        batch=batch,
        split=model_parallel_npus,
        dtype_bytes=dtype_bytes,
    )
    pieces = -(-vocabulary // model_parallel_npus)
    table = (learned + token_types) * hidden + (2 * hidden if outer_norm else 0)
    made = [maker.embedding("embedding", pieces * hidden + table)]
    blocks: list[range] = []
    for number in range(layers + decoder_layers):
        start = len(made)
        if number == layers:
            made.append(maker.embedding("target_embedding", 0))
            start += 1
        made += maker.block(f"block{number}", cross=number >= layers)
        blocks.append(range(start, len(made)))
    if pooler:
        made.append(dense("pooler", Gemm(m=batch, n=hidden, k=hidden), dtype_bytes=dtype_bytes))
    made.append(maker.output(pieces))

    return ModelTable(
        name="transformer",
        layers=tuple(made),
        parallelism=_parallelism(model_parallel_npus, blocks if recompute else None),
        batch=batch,
        dtype_bytes=dtype_bytes,
        assumptions=(
            "attention computes full score matrices, masked or not, and moves them through memory",
            "the normalisation outside the blocks is counted with the embedding",
            "the vocabulary is padded to a multiple of model_parallel_npus",
        ),
    )


def _not_negative(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 0:
            raise FieldError(name, f"must be at least 0, not {size!r}")


def _divides(name: str, parts: int, **sizes: int) -> None:
    for whole, size in sizes.items():
        if size % parts:
            raise FieldError(name, f"must divide {whole}, {size}, not {parts!r}")


def _parallelism(npus: int, recomputed: Sequence[range] | None) -> Parallelism:
    """Parallelism of a model on *npus* NPUs, with the blocks whose forward pass is run again."""
    if recomputed is not None:
        return Parallelism(
            keyword="HYBRID_TRANSFORMER_FWD_IN_BCKWD",
            model_parallel_npus=npus,
            checkpoints=tuple(block[0] for block in recomputed),
            recomputed_before=tuple(block[-1] for block in recomputed),
        )
    if npus > 1:
        return Parallelism(keyword="HYBRID_TRANSFORMER", model_parallel_npus=npus)
    return Parallelism(keyword="DATA")


class _Maker:
    def __init__(
        self,
        *,
        hidden: int,
        heads: int,
        sequence: int,
        inner: int,
        batch: int,
        split: int,
        dtype_bytes: int,
    ) -> None:
        self.hidden = hidden
        self.heads = heads
        self.sequence = sequence
        self.inner = inner
        self.batch = batch
        self.split = split
        self.dtype_bytes = dtype_bytes
        self.tokens = batch * sequence
        # Elements of the sums over the NPUs of one copy of the model.
        self.summed = self.tokens * hidden if split > 1 else 0

    def block(self, name: str, *, cross: bool) -> list[ModelLayer]:
        layers = self._attention(name, 3 * self.hidden)
        if cross:
            layers += self._attention(f"{name}_cross", self.hidden, source=2 * self.hidden)
        activation = self.tokens * self.inner // self.split
        return [
            *layers,
            self._dense(
                f"{name}_expand", self.inner // self.split, self.hidden, norm=True, opens=True
            ),
            self._dense(
                f"{name}_contract",
                self.hidden,
                self.inner // self.split,
                closes=True,
                elements=2 * activation,
            ),
        ]

    def _attention(self, name: str, columns: int, source: int = 0) -> list[ModelLayer]:
        layers = [
            self._dense(f"{name}_qkv", columns // self.split, self.hidden, norm=True, opens=True)
        ]
        if source:
            layers.append(
                self._dense(f"{name}_source", source // self.split, self.hidden, opens=True)
            )
        return [
            *layers,
            self._scores(f"{name}_attention"),
            self._dense(f"{name}_project", self.hidden, self.hidden // self.split, closes=True),
        ]

    def _dense(
        self,
        name: str,
        n: int,
        k: int,
        *,
        norm: bool = False,
        opens: bool = False,
        closes: bool = False,
        elements: int = 0,
    ) -> ModelLayer:
        if norm:
            # Read for the statistics, read again, write.
            elements += 3 * self.tokens * self.hidden
        return dense(
            name,
            Gemm(m=self.tokens, n=n, k=k),
            dtype_bytes=self.dtype_bytes,
            more_parameters=2 * self.hidden if norm else 0,
            forward_sum=self.summed if closes else 0,
            gradient_sum=self.summed if opens else 0,
            beside=Work(memory_bytes=elements * self.dtype_bytes),
        )

    def _scores(self, name: str) -> ModelLayer:
        size = self.hidden // self.heads
        count = self.batch * self.heads // self.split
        scores = Gemm(m=self.sequence, n=self.sequence, k=size, count=count)
        context = Gemm(m=self.sequence, n=size, k=self.sequence, count=count)
        softmax = 2 * count * self.sequence**2
        moved = (scores.elements() + context.elements() + softmax) * self.dtype_bytes
        return ModelLayer(
            name=name,
            parameters=0,
            forward=LayerPass(work=Work(gemms=(scores, context), memory_bytes=moved)),
            # Products of two activations: both sides get a gradient, and there are no weights.
            input_gradient=LayerPass(
                work=Work(
                    gemms=(
                        context.input_gradient(),
                        context.weight_gradient(),
                        scores.input_gradient(),
                        scores.weight_gradient(),
                    ),
                    memory_bytes=2 * moved,
                )
            ),
            weight_gradient=LayerPass(),
        )

    def embedding(self, name: str, parameters: int) -> ModelLayer:
        look_up = Work(memory_bytes=2 * self.tokens * self.hidden * self.dtype_bytes)
        return ModelLayer(
            name=name,
            parameters=parameters,
            forward=summed(look_up, self.summed * self.dtype_bytes),
            input_gradient=LayerPass(),
            weight_gradient=gradient_pass(look_up, parameters, self.dtype_bytes),
            update_bytes=update_bytes(parameters, self.dtype_bytes),
        )

    def output(self, pieces: int) -> ModelLayer:
        return dense(
            "output",
            Gemm(m=self.tokens, n=pieces, k=self.hidden),
            dtype_bytes=self.dtype_bytes,
            bias=False,
            own_weights=False,
            gradient_sum=self.summed,
        )
