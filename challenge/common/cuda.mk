# make build: does it compile? CUDA entrants are judged where a GPU is.
NVCC ?= nvcc

.PHONY: build clean
build: @ID@.so
@ID@.so: @ID@.cu
	$(NVCC) -O3 -arch=sm_90 -Xcompiler=-fPIC,-fvisibility=hidden -shared -Iinclude @ID@.cu -o $@
clean:
	rm -f @ID@.so
