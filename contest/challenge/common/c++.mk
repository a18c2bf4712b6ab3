# make test: the public cases. The judge runs many more, with its own bounds.
CC       ?= cc
CXX      ?= c++
CFLAGS   ?= -std=c11 -O2 -g -Wall -Wextra
CXXFLAGS ?= -std=gnu++17 -O2 -g -Wall -Wextra -fopenmp

.PHONY: test sanitize clean
test: selftest
	./selftest
selftest: @ID@.cpp selftest.c selftest.h
	$(CC) $(CFLAGS) -Iinclude -c selftest.c -o selftest.o
	$(CXX) $(CXXFLAGS) -Iinclude @ID@.cpp selftest.o -lm -o $@
sanitize:
	$(CC) $(CFLAGS) -fsanitize=address,undefined -Iinclude -c selftest.c -o selftest-sanitize.o
	$(CXX) $(CXXFLAGS) -fsanitize=address,undefined -Iinclude @ID@.cpp selftest-sanitize.o -lm -o selftest-sanitize
	./selftest-sanitize
clean:
	rm -f selftest selftest-sanitize *.o
