# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The binding of the C core.

It manages lifetimes, buffers and exceptions, and contains no logic. Users import `flowbuf`.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE, _PyBytes_Resize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from flowbuf_core cimport *

import os
from operator import index
from sys import getsizeof

from flowbuf.errors import DecodeError, EncodeError, FlowbufError

__all__ = ["Capture", "ColumnBuilder", "Datagrams", "Decoder", "MessageTables", "Plan", "ObjectCodec",
           "ObjectOutput", "ObjectTypes", "Row", "Table", "TableType"]

include "binding/base.pxi"
include "binding/plan.pxi"
include "binding/wire.pxi"
include "binding/decoder.pxi"
include "binding/columns.pxi"
include "binding/arrow.pxi"
include "binding/state.pxi"
include "binding/messages.pxi"
include "binding/framing.pxi"
include "binding/capture.pxi"
include "binding/generate.pxi"
include "binding/codec.pxi"
