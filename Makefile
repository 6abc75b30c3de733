# Every target runs on Debian 13: directly there, elsewhere inside a root folder that is built once (packaging/rootfs).
# All need root. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
enter := packaging/rootfs/enter
.PHONY: help demo demo-reset test test-fast test-kernel test-long lint fuzz bench clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## serve iSCSI LUNs and an NFS export on real OpenZFS until Ctrl-C; JSON=1 prints where it is as one line of JSON
	@JSON=$(JSON) packaging/demo/run

demo-reset: ## throw the demo's data away
	@packaging/demo/reset

test: ## test-fast and test-kernel
	@tests/run all

test-fast: ## unit tests and the target on file volumes, natively
	@tests/run fast

test-kernel: ## the target, zvol_clone and the demo on the real OpenZFS module
	@tests/run kernel

test-long: ## the same, with longer random runs and the fallback kernel
	@tests/run long

lint: ## formatting and static checks of everything
	@tests/lint

doors := procedure22 procedure22_copy vaai_nas nas_control
fuzz: ## fuzz what others can send, each target SECONDS (60); TARGETS="login vaai_nas" for some
	@packaging/rootfs/prepare base test
	@$(if $(and $(TARGETS),$(if $(filter-out $(doors),$(TARGETS)),,y)),,zvol_target/fuzz/run time $(or $(SECONDS),60) $(filter-out $(doors),$(TARGETS)))
	@$(if $(and $(TARGETS),$(if $(filter $(doors),$(TARGETS)),,y)),,ganesha_fsal/fuzz/run time $(or $(SECONDS),60) $(filter $(doors),$(TARGETS)))

bench: ## ours beside its peers and the bound, in one run; the service with 1,000 datastores
	@tests/bench/run

clean: ## remove all that was built (the demo's data stays)
	@packaging/clean
