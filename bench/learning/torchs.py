"""The same training by torch, eager, on the CPU: the same weights to begin with, the same batches in the same order."""
import torch


def curve(task, weights, seed, steps):
    """(losses, trained weights)."""
    torch.manual_seed(seed)
    parameters = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=1, weight_decay=task.decay, eps=1e-8)
    losses = []
    for step in range(steps):
        batch = {name: torch.from_numpy(value.copy()) for name, value in task.batch_of(seed, step).items()}
        optimizer.param_groups[0]["lr"] = float(task.rate(step))
        y = task.torch_model(parameters, batch["x"], lambda x: torch.nn.functional.dropout(x, task.dropout))
        loss = torch.nn.functional.cross_entropy(y, batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: p.detach().numpy() for name, p in parameters.items()}


def score(task, weights):
    """What the weights make of held-out data."""
    with torch.no_grad():
        y = task.torch_model({n: torch.from_numpy(w) for n, w in weights.items()}, torch.from_numpy(task.held_out[0]),
                             lambda x: x)
    return task.held_out_score(y.numpy())
