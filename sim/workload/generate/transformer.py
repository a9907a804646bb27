# SPDX-License-Identifier: Apache-2.0
"""Transformers: encoder or decoder stacks (BERT, GPT) and both together (Vaswani et al., 2017).

With more than one NPU per copy of the model, the weights of a block are split as in Megatron-LM
(Shoeybi et al., arXiv 1909.08053): attention by heads, the feed-forward part by columns, then rows.
Activations are summed after both parts of a block, their gradients before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sim.fields import FieldError
from sim.workload.generate.parts import checked, dense, gradient_pass, summed, update_bytes
from sim.workload.model import LayerPass, ModelLayer, ModelTable
from sim.workload.training import Parallelism
from sim.workload.work import Gemm, Work

__all__ = ["PRESETS", "Transformer"]

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

MATRICES = "attention computes full score matrices, masked or not, and moves them through memory"


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A Transformer on *batch* sequences per copy of the model; see `table`.

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

    hidden: int = 768
    layers: int = 12
    heads: int = 12
    sequence: int = 512
    vocabulary: int = 50257
    feed_forward: int | None = None
    positions: int | None = None
    token_types: int = 0
    pooler: bool = False
    outer_norm: bool = True
    decoder_layers: int = 0
    model_parallel_npus: int = 1
    recompute: bool = False
    batch: int = 8
    dtype_bytes: int = 2

    def __post_init__(self) -> None:
        checked(
            hidden=self.hidden,
            layers=self.layers,
            heads=self.heads,
            sequence=self.sequence,
            vocabulary=self.vocabulary,
            feed_forward=self._inner,
            model_parallel_npus=self.model_parallel_npus,
            batch=self.batch,
            dtype_bytes=self.dtype_bytes,
        )
        _not_negative(
            positions=self._learned,
            token_types=self.token_types,
            decoder_layers=self.decoder_layers,
        )
        if self.decoder_layers:
            checked(decoder_layers=self.decoder_layers)
        _divides("heads", self.heads, hidden=self.hidden)
        _divides(
            "model_parallel_npus", self.model_parallel_npus,
            heads=self.heads, feed_forward=self._inner,
        )

    @property
    def _inner(self) -> int:
        return 4 * self.hidden if self.feed_forward is None else self.feed_forward

    @property
    def _learned(self) -> int:
        return self.sequence if self.positions is None else self.positions

    @property
    def _tokens(self) -> int:
        return self.batch * self.sequence

    @property
    def _summed(self) -> int:
        """Elements of the sums over the NPUs of one copy of the model."""
        return self._tokens * self.hidden if self.model_parallel_npus > 1 else 0

    def table(self) -> ModelTable:
        """The layers of the model, and how it is distributed."""
        pieces = -(-self.vocabulary // self.model_parallel_npus)
        beside = (self._learned + self.token_types) * self.hidden
        beside += 2 * self.hidden if self.outer_norm else 0
        made = [self._embedding("embedding", pieces * self.hidden + beside)]
        blocks: list[range] = []
        for number in range(self.layers + self.decoder_layers):
            start = len(made)
            if number == self.layers:
                made.append(self._embedding("target_embedding", 0))
                start += 1
            made += self._block(f"block{number}", cross=number >= self.layers)
            blocks.append(range(start, len(made)))
        if self.pooler:
            first = Gemm(m=self.batch, n=self.hidden, k=self.hidden)
            made.append(dense("pooler", first, dtype_bytes=self.dtype_bytes))
        made.append(self._output(pieces))

        return ModelTable(
            name="transformer",
            layers=tuple(made),
            parallelism=_parallelism(self.model_parallel_npus, blocks if self.recompute else None),
            batch=self.batch,
            dtype_bytes=self.dtype_bytes,
            assumptions=(
                MATRICES,
                "the normalisation outside the blocks is counted with the embedding",
                "the vocabulary is padded to a multiple of model_parallel_npus",
            ),
        )

    def _block(self, name: str, *, cross: bool) -> list[ModelLayer]:
        layers = self._attention(name, 3 * self.hidden)
        if cross:
            layers += self._attention(f"{name}_cross", self.hidden, source=2 * self.hidden)
        inner = self._inner // self.model_parallel_npus
        return [
            *layers,
            self._dense(f"{name}_expand", inner, self.hidden, norm=True, opens=True),
            self._dense(
                f"{name}_contract", self.hidden, inner, closes=True,
                elements=2 * self._tokens * inner,
            ),
        ]

    def _attention(self, name: str, columns: int, source: int = 0) -> list[ModelLayer]:
        split = self.model_parallel_npus
        layers = [self._dense(f"{name}_qkv", columns // split, self.hidden, norm=True, opens=True)]
        if source:
            layers.append(self._dense(f"{name}_source", source // split, self.hidden, opens=True))
        return [
            *layers,
            self._scores(f"{name}_attention"),
            self._dense(f"{name}_project", self.hidden, self.hidden // split, closes=True),
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
            elements += 3 * self._tokens * self.hidden
        return dense(
            name,
            Gemm(m=self._tokens, n=n, k=k),
            dtype_bytes=self.dtype_bytes,
            more_parameters=2 * self.hidden if norm else 0,
            forward_sum=self._summed if closes else 0,
            gradient_sum=self._summed if opens else 0,
            beside=Work(memory_bytes=elements * self.dtype_bytes),
        )

    def _scores(self, name: str) -> ModelLayer:
        size = self.hidden // self.heads
        count = self.batch * self.heads // self.model_parallel_npus
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

    def _embedding(self, name: str, parameters: int) -> ModelLayer:
        look_up = Work(memory_bytes=2 * self._tokens * self.hidden * self.dtype_bytes)
        return ModelLayer(
            name=name,
            parameters=parameters,
            forward=summed(look_up, self._summed * self.dtype_bytes),
            input_gradient=LayerPass(),
            weight_gradient=gradient_pass(look_up, parameters, self.dtype_bytes),
            update_bytes=update_bytes(parameters, self.dtype_bytes),
        )

    def _output(self, pieces: int) -> ModelLayer:
        return dense(
            "output",
            Gemm(m=self._tokens, n=pieces, k=self.hidden),
            dtype_bytes=self.dtype_bytes,
            bias=False,
            own_weights=False,
            gradient_sum=self._summed,
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
