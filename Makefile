# Every target runs inside a Debian 13 root folder that is built once (packaging/rootfs).
# All need root. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
enter := packaging/rootfs/enter
.PHONY: help demo demo-reset check test test-long lint packages repository image fuzz bench bench-long clean clean-cache

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## serve iSCSI LUNs and an NFS export on real OpenZFS until Ctrl-C; JSON=1 prints where it is as one line of JSON
	@JSON=$(JSON) packaging/demo/run

demo-reset: ## throw the demo's data away
	@packaging/demo/reset

check: ## formatting, static checks and unit tests: no guest, no browser, no daemon
	@tests/run check

test: ## all that a change can break, on the real OpenZFS module too
	@tests/run test

test-long: ## all there is: more seeds, longer soaks, OpenZFS 2.4, the fallback kernel
	@tests/run long

lint: ## formatting and static checks alone
	@tests/lint

packages: ## Debian packages of this checkout, in .cache/packages
	@packaging/build-packages

repository: ## a signed apt repository of them, in .cache/repository, for a web server at URL
	@packaging/build-repository $(URL)

image: ## a disk image that boots by UEFI, in .cache/image (raw, qcow2, ova); URL is the repository for its updates
	@packaging/build-image $(URL)

fsal_targets := procedure22 procedure22_copy nas_control
fuzz: ## fuzz what others can send, each target SECONDS (60); TARGETS="login nas_control" for some
	@packaging/rootfs/prepare base test
	@$(if $(and $(TARGETS),$(if $(filter-out $(fsal_targets),$(TARGETS)),,y)),,zvol_target/fuzz/run time $(or $(SECONDS),60) $(filter-out $(fsal_targets),$(TARGETS)))
	@$(if $(and $(TARGETS),$(if $(filter $(fsal_targets),$(TARGETS)),,y)),,ganesha_fsal/fuzz/run time $(or $(SECONDS),60) $(filter $(fsal_targets),$(TARGETS)))

bench: ## ours beside its peers and the bound, in one run of less than 10 min
	@tests/bench/run short

bench-long: ## the same with all sizes and more rounds, and the service with 1,000 datastores; over an hour
	@tests/bench/run long

clean: ## remove what belongs to this checkout alone (the demo's data stays)
	@packaging/clean

clean-cache: ## remove what all checkouts share, too: the Debian 13 environment, the kernel, builds; not the repository's key
	@packaging/clean cache
