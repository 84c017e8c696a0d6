"""The functions of span_attention.c in torch: for other devices and dtypes, and if there is no compiler."""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.ops.span_attention.work import Gradients, Work


class EagerKernels:
    """Functions over a `Work`, with the names and meaning of those in span_attention.c."""

    def __init__(self, work: Work, gradients: Gradients | None = None) -> None:
        self.work, self.gradients = work, gradients

    def tape(self, product: Tensor, places: Tensor) -> None:
        work = self.work
        update, forget = self._update_and_forget(product)
        if not work.released:
            update = update.tanh()
        # If f is nearly 1, 1 - f loses precision, so it is computed by its own sigmoid.
        work.tape[places] = torch.cat([torch.sigmoid(-forget) * update, torch.sigmoid(forget)], dim=-1)

    def tape_backward(self, product: Tensor, grads: Tensor, places: Tensor) -> None:
        assert self.gradients is not None
        work, size = self.work, self.work.size
        u, f = work.tape[places].chunk(2, dim=-1)
        u_grad, f_grad = self.gradients.tape[places].chunk(2, dim=-1)
        update, forget = self._update_and_forget(product)
        left = torch.sigmoid(-forget)
        grads[:, size : 2 * size] = f * (f_grad * left - u_grad * u)
        grads[:, :size] = u_grad * left if work.released else u_grad * left * (1 - update.tanh().square())

    def represent(self, first: int, last: int) -> Tensor:
        work = self.work
        runs, _ = self._runs(first, last)
        runs = runs[:, 1:]
        spans = torch.tanh(self._gate(first, last)[:, None] * runs) if work.released else runs
        return spans.to(work.features.dtype)

    def attend(self, first: int, last: int, spans: Tensor, hidden: Tensor | None) -> None:
        work, rows = self.work, self.work.rows[first:last]
        if hidden is not None:
            assert work.score_weight is not None
            assert work.scores is not None
            neurons = torch.tanh(hidden.to(work.tape.dtype) + self._token(rows)[:, None])
            hidden.copy_(neurons)
            scores = neurons @ work.score_weight
            work.scores[rows] = scores
            work.attentions[rows] = torch.softmax(scores, dim=-1)
        assert work.contexts is not None
        work.contexts[rows] = torch.einsum("qm,qmr->qr", work.attentions[rows], spans.to(work.tape.dtype))

    def attend_backward(self, first: int, last: int, spans: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        work, rows, gradients = self.work, self.work.rows[first:last], self.gradients
        assert gradients is not None
        assert work.score_weight is not None
        attention, dtype = work.attentions[rows], work.tape.dtype
        grads = torch.einsum("qr,qmr->qm", gradients.contexts[rows], spans.to(dtype))
        if gradients.attentions is not None:
            grads = grads + gradients.attentions[rows]
        grads = attention * (grads - (grads * attention).sum(-1, keepdim=True))
        if gradients.scores is not None:
            grads = grads + gradients.scores[rows]
        neuron_grads = grads[..., None] * work.score_weight * (1 - hidden.to(dtype).square())
        gradients.features[rows, -work.scorer :] = neuron_grads.sum(1).to(gradients.features.dtype)
        return grads, neuron_grads.to(work.features.dtype)

    def represent_backward(self, first: int, last: int, spans: Tensor, product: Tensor | None) -> None:
        work, rows, gradients = self.work, self.work.rows[first:last], self.gradients
        assert gradients is not None
        size, half, dtype = work.size, work.size // 2, work.tape.dtype
        runs, kept = self._runs(first, last)
        grads = work.attentions[rows][..., None] * gradients.contexts[rows][:, None]
        if product is not None:
            grads = grads + product.to(dtype)
        if work.released:
            gate = self._gate(first, last)
            grads = grads * (1 - spans.to(dtype).square())
            gate_grad = (grads * runs[:, 1:]).sum(1) * (gate - gate * gate)
            gradients.features[rows, 2 * size : 3 * size] = gate_grad.to(gradients.features.dtype)
            grads = grads * gate[:, None]
        carried = grads.new_zeros(last - first, half)  # the gradient of the forward run's product of forget gates
        longer, through = torch.zeros_like(carried), torch.zeros_like(carried)
        for length in range(work.maximum, 0, -1):
            places = work.places[first:last] - length
            u, f = work.tape[places].chunk(2, dim=-1)
            longer = longer + grads[:, length - 1, :half]
            through = through + grads[:, length - 1, half:]
            before = kept[length - 1]
            parts = before * longer, through, before * carried, through * runs[:, length - 1, half:]
            gradients.tape.index_add_(0, places, torch.cat(parts, dim=-1))
            carried = u[:, :half] * longer + f[:, :half] * carried
            through = through * f[:, half:]

    def _runs(self, first: int, last: int) -> tuple[Tensor, list[Tensor]]:
        """Return the runs over spans of lengths 0 to m, (queries, m + 1, R); for each length, the product of forget
        gates.
        """
        work, half = self.work, self.work.size // 2
        places = work.places[first:last]
        runs = work.tape.new_zeros(last - first, work.maximum + 1, work.size)
        kept = [work.tape.new_ones(last - first, half)]
        for length in range(1, work.maximum + 1):
            u, f = work.tape[places - length].chunk(2, dim=-1)
            before, now = runs[:, length - 1], runs[:, length]
            torch.addcmul(before[:, :half], kept[-1], u[:, :half], out=now[:, :half])
            torch.addcmul(u[:, half:], f[:, half:], before[:, half:], out=now[:, half:])
            kept.append(kept[-1] * f[:, :half])
        return runs, kept

    def _update_and_forget(self, product: Tensor) -> tuple[Tensor, Tensor]:
        size = self.work.size
        update, forget = product[:, : 2 * size].to(self.work.tape.dtype).chunk(2, dim=-1)
        return update, forget

    def _gate(self, first: int, last: int) -> Tensor:
        work, size = self.work, self.work.size
        logits = work.features[work.rows[first:last], 2 * size : 3 * size]
        return torch.sigmoid(logits.to(work.tape.dtype))

    def _token(self, rows: Tensor) -> Tensor:
        return self.work.features[rows, -self.work.scorer :].to(self.work.tape.dtype)
