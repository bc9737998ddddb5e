package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// jailed is kvwatch in a folder that it sees as the whole file system, for tests
// of what it reads under /etc: kvwatch-jailed FOLDER ARGUMENT... It needs what
// root may do.
func jailed() {
	folder := os.Args[1]
	if err := errors.Join(syscall.Chroot(folder), os.Chdir("/")); err != nil {
		fmt.Fprintf(os.Stderr, "kvwatch-jailed: chroot %s: %v\n", folder, err)
		os.Exit(1)
	}
	os.Args = append([]string{"kvwatch"}, os.Args[2:]...)
	main()
}
