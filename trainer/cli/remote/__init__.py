"""`trainer run --on PLACE`: a run that trains on another machine, and whose run directory is here.

    command ─ relay ──── frames ──── agent ─ worker
              run directory          folder with code, config and its own run directory

relay      takes the worker's place on this machine: holds the run's lock, copies what the agent sends into the run
           directory, forwards requests and signals; reconnects when the connection is lost (relay.py, mirror.py)
agent      starts the worker there, as a separate process or through Slurm or Ray, and sends new files and events; it
           ends with the connection, the worker doesn't (agent.py, jobs.py)
place      how the agent is started: through `ssh`, or on this machine (places.py)
parcel     the files to transfer before the start: code, config, data that is named, checkpoints (parcel.py)

Everything that reads a run directory therefore works as for a local run. The progress of the transfer is not counted in
memory, where a kill would lose it: the size of the event file here shows how much of it has arrived, and modification
times show which other files have arrived.
"""
