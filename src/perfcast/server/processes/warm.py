"""Imported by the process from which the others are forked: what it does there, none of them does again."""

from perfcast.server.processes.child import prepare

prepare()
