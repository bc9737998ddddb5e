package history

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// pageOut takes the mapped files in a folder, given by its real path, out of the
// resident memory. They stay mapped, and what is read of them again comes back.
func pageOut(dir string) error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var begin, end uintptr
		if !strings.Contains(lines.Text(), dir+"/") {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x ", &begin, &end); err != nil {
			return fmt.Errorf("/proc/self/maps: %q: %w", lines.Text(), err)
		}
		// Not MADV_DONTNEED: where the database unmaps the file meanwhile, and its
		// addresses are given to something else, that would lose what is there.
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_PAGEOUT); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return lines.Err()
}
