"""Very large jobs: parsing or scoring of text in shards, by several processes, into a folder of Parquet files.

`run_job` splits the inputs into shards of consecutive lines. Each shard is done by one worker, which has loaded the
model once, and is written atomically: it is done or not done, and an interrupted job does only the rest when it is run
again. An `Engine` starts the workers: processes of this machine, or actors of Ray.
"""
