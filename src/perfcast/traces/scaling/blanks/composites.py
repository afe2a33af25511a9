"""Operators made of others that are known to run on tensors without memory.

Those that ``native_functions.yaml`` has as ``CompositeImplicitAutograd`` or ``CompositeExplicitAutograd``,
and that only pass on what they are given; beside them stand all with a ``Meta`` kernel.
"""

from __future__ import annotations

COMPOSITES = frozenset(
    """
    __and__ __or__ _batch_norm_impl_index _conj _convolution _reshape_copy
    _scaled_dot_product_attention_math _to_copy adaptive_avg_pool1d adaptive_avg_pool2d alias argsort
    as_strided_ batch_norm broadcast_tensors broadcast_to chunk clone concat concatenate constant_pad_nd
    contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d copy_ cross_entropy_loss detach
    detach_ diagonal diff dropout einsum expand expand_as feature_dropout fft_fft fft_ifft fft_irfft
    fft_rfft flatten full_like group_norm hstack index_select_backward instance_norm kl_div l1_loss
    layer_norm lift_fresh linalg_norm linear log_sigmoid log_softmax mH mT margin_ranking_loss matmul
    max max_pool1d max_pool2d meshgrid min moveaxis movedim narrow nll_loss nll_loss2d nll_loss_nd
    one_hot ones_like outer pad permute positive prelu rand rand_like randint randint_like randn
    randn_like randperm ravel real relu6 repeat_interleave reshape reshape_as resolve_conj resolve_neg
    rms_norm rot90 scaled_dot_product_attention select selu slice softmax split split_with_sizes square
    squeeze squeeze_ stack std std_mean swapaxes swapdims t tensor_split tensordot tile to transpose
    type_as unbind unflatten unsafe_chunk unsqueeze upsample_bilinear2d upsample_nearest1d
    upsample_nearest2d value_selecting_reduction_backward var var_mean view view_as vstack where
    zeros_like
    """.split()
)
