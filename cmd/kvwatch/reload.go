package main

import (
	"errors"
	"fmt"
	"time"
)

// reload reads the configuration again. All of it is checked before anything
// changes; history, alert states and known series stay.
func (d *daemon) reload() error {
	err := d.tryReload()
	if err != nil {
		d.metrics.reloadSuccess.Set(0)
		d.log.Error("the configuration was not reloaded; the old one stays in force", "file", d.o.ConfigFile, "err", err)
		return err
	}
	d.metrics.reloadSuccess.Set(1)
	d.metrics.reloadTime.SetToCurrentTime()
	d.log.Info("configuration reloaded", "file", d.o.ConfigFile)
	return nil
}

func (d *daemon) tryReload() error {
	if d.o.ConfigFile == "" {
		return errors.New("there is no configuration file to reload: this is the demo")
	}
	if d.server.page.Load() == nil {
		return errors.New("kvwatch is still starting; try again in a few seconds")
	}
	c, err := loadConfig(d.o.ConfigFile)
	if err != nil {
		return err
	}
	if err := d.dispatcher.Reload(c.Alerting); err != nil {
		return fmt.Errorf("receivers: %w", err)
	}
	if err := d.engine.Reload(c.Pools, c.Rules, time.Duration(c.Global.ScrapeInterval)); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	if err := d.intake.reload(c); err != nil {
		return err
	}
	d.setGlobal(c.Global)
	return nil
}
