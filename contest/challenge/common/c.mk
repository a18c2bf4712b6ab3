# make test: the public cases. The judge runs many more, with its own bounds.
CC     ?= cc
CFLAGS ?= -std=c11 -O2 -g -Wall -Wextra

.PHONY: test sanitize clean
test: selftest
	./selftest
selftest: @ID@.c selftest.c selftest.h
	$(CC) $(CFLAGS) -Iinclude @ID@.c selftest.c -lm -o $@
sanitize:
	$(CC) $(CFLAGS) -fsanitize=address,undefined -Iinclude @ID@.c selftest.c -lm -o selftest-sanitize
	./selftest-sanitize
clean:
	rm -f selftest selftest-sanitize
