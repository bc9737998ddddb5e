package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// cramped is kvwatch on a disk that fills up and is emptied again, for tests: from
// SIGUSR1 on no file may grow, until SIGUSR2. The limit of the file size stands in
// for the disk: it needs no rights and no mount.
func cramped() {
	signal.Ignore(syscall.SIGXFSZ) // so that a write fails, as on a full disk
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Fprintf(os.Stderr, "kvwatch-cramped: %v\n", err)
		os.Exit(1)
	}
	room := limit.Cur
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range asked {
			limit.Cur = room
			if s == syscall.SIGUSR1 {
				limit.Cur = 0
			}
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				fmt.Fprintf(os.Stderr, "kvwatch-cramped: %v\n", err)
			}
		}
	}()
	main()
}

// bystander is kvwatch without the rights of root, which may write what is
// read-only, for tests.
func bystander() {
	const nobody = 65534
	if os.Geteuid() == 0 {
		if err := syscall.Setgid(nobody); err != nil {
			fmt.Fprintf(os.Stderr, "kvwatch-bystander: %v\n", err)
			os.Exit(1)
		}
		if err := syscall.Setuid(nobody); err != nil {
			fmt.Fprintf(os.Stderr, "kvwatch-bystander: %v\n", err)
			os.Exit(1)
		}
	}
	main()
}
