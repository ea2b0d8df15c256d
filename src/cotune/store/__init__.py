"""The store: what was measured and planned, kept so that a kill loses at most the step in flight.

    save(job, sample) ─▶ samples, evaluations ─▶ samples(job) ─▶ predict
    save_plan(job, plan) ─▶ plans ─▶ latest_plan(job) ─▶ run
    save_refusal(job, goal) ─▶ refusal(job) ─▶ run, which then follows no older plan
    save_model_step(step) ─▶ model_steps ─▶ steps_of_models(device) ─▶ model predict
    save_result(kind, name, document) ─▶ results ─▶ dashboard

One SQLite file in the project's `.cotune/` folder or the platform's data folder, or a
PostgreSQL database for a team. Every save is a transaction of its own.
"""

from cotune.store.database import KnownJob, Store, StoredPlan, StoredRefusal, StoredResult, open_store
from cotune.store.location import work_folder
from cotune.store.rows import Fingerprint, ModelStep

__all__ = [
    "Fingerprint",
    "KnownJob",
    "ModelStep",
    "Store",
    "StoredPlan",
    "StoredRefusal",
    "StoredResult",
    "open_store",
    "work_folder",
]
