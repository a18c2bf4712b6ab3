# make build: compile only. On a machine with a GPU: touchstone judge THIS-FOLDER
NVCC ?= nvcc

.PHONY: build clean
build: @ID@.so
@ID@.so: @ID@.cu
	$(NVCC) -O3 -arch=sm_90 -Xcompiler=-fPIC,-fvisibility=hidden -shared -Iinclude @ID@.cu -o $@
clean:
	rm -f @ID@.so
