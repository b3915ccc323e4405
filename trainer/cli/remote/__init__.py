"""`trainer run --on PLACE`: a run that trains on another machine, and whose run directory is here.

    command ─ relay ──── frames ──── agent ─ worker
              run directory          folder with code, config and its own run directory

relay      takes the worker's place on this machine: holds the run's lock, copies what the agent sends into the run
           directory, forwards requests and signals; reconnects when the connection is lost (relay.py, mirror.py)
agent      starts the worker there, as a process of its own or through Slurm or Ray, and sends what is new; it ends with
           the connection, the worker doesn't (agent.py, jobs.py)
place      how the agent is started: through `ssh`, or on this machine (places.py)
parcel     what is transferred before the start: code, config, data that is named, checkpoints (parcel.py)

So everything that reads a run directory works as for a run of this machine. Between the two ends nothing is counted
that a kill could lose: the size of the events here says how much of them has arrived, and modification times say it of
other files.
"""
