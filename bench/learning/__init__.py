"""Whether training learns: tasks (data, model, batches), our training beside torch's, curves and what they show."""
