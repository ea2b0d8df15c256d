"""The job's side of the contract: report, parameter servers, balance."""
