"""Addresses of the shop."""

from django.urls import path

from shop.views import list_orders, take_order

urlpatterns = [path("orders", take_order), path("orders/list", list_orders)]
