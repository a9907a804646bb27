# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 (He et al., CVPR 2016, Table 1), the variant whose 3 x 3 filters have the stride.

53 convolutions and a fully connected layer. Data parallel.
"""

from sim.fields import FieldError
from sim.workload.generate.parts import checked, dense, gradient_pass, update_bytes
from sim.workload.model import LayerPass, ModelLayer, ModelTable
from sim.workload.training import Parallelism
from sim.workload.work import Convolution, Gemm, Work

__all__ = ["generate"]

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels of the 3 x 3 filters, blocks
EXPANSION = 4


def generate(
    *,
    batch: int = 32,
    dtype_bytes: int = 2,
    image_size: int = 224,
    classes: int = 1000,
    fused: bool = False,
) -> ModelTable:
    """ResNet-50 on images of *image_size* x *image_size* pixels, *batch* of them per NPU.

    A convolution takes its batch normalisation and activation along: two parameters per channel
    and memory traffic, but no matrix product. With *fused* the traffic is taken to be hidden in
    the convolutions.
    """
    checked(batch=batch, dtype_bytes=dtype_bytes, image_size=image_size, classes=classes)
    if image_size % 32:
        raise FieldError("image_size", f"must be a multiple of 32, not {image_size!r}")
    layers: list[ModelLayer] = []

    def convolution(
        name: str, size: int, channels: int, filters: int, filter_size: int, stride: int = 1
    ) -> None:
        shape = Convolution(
            height=size,
            width=size,
            channels=channels,
            filter_height=filter_size,
            filter_width=filter_size,
            filters=filters,
            stride=stride,
            padding=filter_size // 2,
            batch=batch,
        )
        layers.append(_layer(name, shape, dtype_bytes, first=not layers, fused=fused))

    convolution("conv1", image_size, 3, 64, 7, 2)
    size, channels = image_size // 4, 64
    for stage, (width, blocks) in enumerate(STAGES, start=2):
        for block in range(1, blocks + 1):
            name = f"conv{stage}_{block}"
            stride = 2 if block == 1 and stage > 2 else 1
            if block == 1:
                convolution(f"{name}_shortcut", size, channels, EXPANSION * width, 1, stride)
            convolution(f"{name}_a", size, channels, width, 1)
            convolution(f"{name}_b", size, width, width, 3, stride)
            size //= stride
            channels = EXPANSION * width
            convolution(f"{name}_c", size, width, channels, 1)
    layers.append(dense("fc", Gemm(m=batch, n=classes, k=channels), dtype_bytes=dtype_bytes))
    return ModelTable(
        name="resnet50",
        layers=tuple(layers),
        parallelism=Parallelism(keyword="DATA"),
        batch=batch,
        dtype_bytes=dtype_bytes,
        assumptions=(
            "normalisation and activation move no memory of their own"
            if fused
            else "normalisation and activation read a convolution's output twice and write it "
            "once; their gradient reads two tensors twice and writes one",
            "pooling and the additions of the shortcuts are not counted",
        ),
    )


def _layer(
    name: str, shape: Convolution, dtype_bytes: int, *, first: bool, fused: bool
) -> ModelLayer:
    gemm = shape.gemm()
    parameters = shape.weights + 2 * shape.filters
    tensors = (shape.input_elements + shape.weights + shape.output_elements) * dtype_bytes
    output = 0 if fused else shape.output_elements * dtype_bytes
    normalise = Work(memory_bytes=5 * output)
    # The gradient of the normalisation comes before both gradients of the convolution; it is
    # counted with the weight gradient, which every layer has.
    weights = Work(gemms=(gemm.weight_gradient(),), memory_bytes=tensors) + normalise
    backward = Work(gemms=(gemm.input_gradient(),), memory_bytes=tensors)
    return ModelLayer(
        name=name,
        parameters=parameters,
        forward=LayerPass(work=Work(gemms=(gemm,), memory_bytes=tensors + 3 * output)),
        input_gradient=LayerPass(work=Work() if first else backward),
        weight_gradient=gradient_pass(weights, parameters, dtype_bytes),
        update_bytes=update_bytes(parameters, dtype_bytes),
    )
